"""``hugealign enable``: let a systemd service run from huge text."""

import argparse
import os

from hugealign.cli import messages, services
from hugealign.cli.arguments import add_json
from hugealign.io.units import printable

EPILOG = """\
enable writes units into /etc/systemd/system for each UNIT: a service that puts
the text on huge pages before UNIT starts, and a drop-in that makes UNIT wait for
it. If the file system keeps huge pages, the service warms the text in place.
Otherwise it makes a copy in /run/hugealign, and the drop-in mounts the copy over
the file for UNIT alone; a path unit drops copies of files that change. The
package's files do not change. Each start of UNIT looks its files up again, as
UNIT sees them, so an upgrade or a link that restarts UNIT needs nothing more. If
anything fails, UNIT starts as before.

--file names programs and libraries that the service starts or opens later, by
the paths that UNIT sees. From a directory, such as a Python virtual environment,
enable takes the files that have a whole window, or get one with --fix. Run
enable again after you have added a package there. If the unit names a shell or a
script, start it first, or use --file.

If UNIT runs from a copy, it gets its own mount namespace: other processes do
not see what it mounts. enable refuses a service that it sees mounting for
others, and warns of one that may.

examples:
  hugealign enable --dry-run mariadb     print what it would write
  hugealign enable --fix mariadb && systemctl restart mariadb
  hugealign ps mariadbd
  hugealign disable mariadb && systemctl restart mariadb
"""
STATUS = {
    0: "done",
    1: "a UNIT was left unchanged; the message says why",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("units", nargs="+", metavar="UNIT", help="a service, with or without .service")
    add("--dry-run", action="store_true", help="only print the files that enable would write")
    add("--fix", action="store_true", help="run from fixed copies of the files that fix gives more windows")
    add("--libs", action="store_true", help="include shared libraries; for a running service, all that it has loaded")
    about = "include this program or library, or those below this directory; may be repeated"
    add("--file", metavar="PATH", action="append", default=[], help=about)
    about = "for the service that enable writes: look UNIT's files up again and prepare them, before UNIT starts"
    add("--renew", action="store_true", help=about)
    add_json(add, "schema hugealign.enable/1")


def run(args: argparse.Namespace) -> int:
    """Enable or show, and return the exit status."""
    from hugealign.diagnosis import render
    from hugealign.diagnosis.values import Remedy
    from hugealign.services import enable

    os.umask(0o022)  # everyone reads, and only we change, what the system runs
    options = enable.EnableOptions(args.file, args.libs, args.fix)

    def renewed(unit: str) -> tuple[list[str], list[str]]:
        done = enable.renew(unit, options)
        for diagnosis in done.failed:
            messages.warning(f"{printable(diagnosis.subject)}: {render.text(diagnosis)}")
        paths = [*done.staged, *done.warmed]
        return paths, [f"{printable(path)}: ready" for path in paths]

    def work(unit: str) -> tuple[list[str], list[str]]:
        done = (enable.plan if args.dry_run else enable.enable)(unit, options)
        for diagnosis in done.left:
            messages.warning(f"{printable(diagnosis.subject)}: {render.text(diagnosis)}")
        paths = list(done.texts)
        if args.dry_run:
            return paths, [f"# {printable(path)}\n{text}" for path, text in done.texts.items()]
        now = render.remedy(Remedy("now", ("systemctl", "restart", done.name)))
        return paths, [*(f"wrote {printable(path)}" for path in paths), now]

    return services.each(args, renewed if args.renew else work)
