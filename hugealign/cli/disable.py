"""``hugealign disable``: let a systemd service start from its own files again."""

import argparse

from hugealign.cli import messages
from hugealign.diagnosis.refusal import RefusalError
from hugealign.errors import HugealignError
from hugealign.io.units import printable

EPILOG = """\
disable removes the files that `hugealign enable` wrote for each UNIT, and its copies
in /run/hugealign.  A running service keeps its copies until it is restarted.

example:
  hugealign disable mariadb && systemctl restart mariadb
"""
STATUS = {
    0: "done",
    1: "a UNIT was left as it is, for the reason given",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the units."""
    parser.add_argument("units", nargs="+", metavar="UNIT", help="a service, with or without .service")


def run(args: argparse.Namespace) -> int:
    """Remove the files, name them, and return the exit status."""
    from hugealign.services import enable

    status = 0
    for unit in args.units:
        try:
            for path in enable.disable(unit):
                print(f"removed {printable(path)}")
        except HugealignError as error:
            status = max(status, error.exit_status)
            messages.error(f"{printable(unit)}: {error}" if isinstance(error, RefusalError) else error)
    return status
