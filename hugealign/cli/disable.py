"""``hugealign disable``: let a systemd service start from its own files again."""

import argparse

from hugealign.cli import services
from hugealign.cli.arguments import add_json
from hugealign.errors import UsageError
from hugealign.io.units import printable

EPILOG = """\
disable removes what `hugealign enable` wrote for each UNIT and the copies that
only UNIT uses.  A running service keeps its copies until it is restarted.

example:
  hugealign disable --now mariadb

--all undoes all that `hugealign enable --all` did, on the whole machine.
"""
STATUS = {
    0: "done",
    1: "a UNIT was left unchanged; the message says why",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("units", nargs="*", metavar="UNIT", help="a service, with or without .service")
    parser.add_argument("--all", action="store_true", help="undo enable --all, instead of UNIT")
    about = "also restart UNIT if it runs, so that it runs from its own files"
    parser.add_argument("--now", action="store_true", help=about)
    add_json(parser.add_argument, "schema hugealign.enable/1")


def run(args: argparse.Namespace) -> int:
    """Remove the files, name them, and return the exit status."""
    from hugealign.services import enable, programs

    if args.all:
        from hugealign.cli import machine

        return machine.disable(args)
    if not args.units:
        raise UsageError("which UNIT? For the whole machine: --all")

    def work(unit: str) -> tuple[list[str], list[str]]:
        removed = enable.disable(unit)
        lines = [f"removed {printable(path)}" for path in removed]
        if args.now:
            name = programs.full_name(unit)
            programs.restart(name, only_running=True)
            lines.append(f"restarted {printable(name)}, if it ran")
        return removed, lines

    return services.each(args, work)
