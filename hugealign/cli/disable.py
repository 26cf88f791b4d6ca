"""``hugealign disable``: let a systemd service start from its own files again."""

import argparse

from hugealign.cli import services
from hugealign.cli.arguments import add_json
from hugealign.io.units import printable

EPILOG = """\
disable removes what `hugealign enable` wrote for each UNIT and the copies that
only UNIT uses.  A running service keeps its copies until it is restarted.

example:
  hugealign disable mariadb && systemctl restart mariadb
"""
STATUS = {
    0: "done",
    1: "a UNIT was left unchanged; the message says why",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("units", nargs="+", metavar="UNIT", help="a service, with or without .service")
    add_json(parser.add_argument, "schema hugealign.enable/1")


def run(args: argparse.Namespace) -> int:
    """Remove the files, name them, and return the exit status."""
    from hugealign.services import enable

    def work(unit: str) -> tuple[list[str], list[str]]:
        removed = enable.disable(unit)
        return removed, [f"removed {printable(path)}" for path in removed]

    return services.each(args, work)
