"""``hugealign enable``: let a systemd service run from huge text."""

import argparse
import os

from hugealign.cli import arguments, messages, services
from hugealign.cli.arguments import add_json, percentage, seconds
from hugealign.errors import UsageError
from hugealign.io.units import counted, format_size, printable

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
enable again after you have added a package there. If the unit names a shell,
enable takes the programs that its command names; if it names a script, start it
first, or use --file.

--all takes the whole machine: it looks for ten seconds at what runs and starts,
and makes that huge which saves processor time, the best first, within --max
bytes of memory: files in place, held in memory, where the file system keeps huge
pages; copies for services elsewhere. It restarts nothing. A timer looks again
each hour, and after packages have changed. /etc/hugealign.toml holds the policy.
disable --all undoes all of it.

If UNIT runs from a copy, it gets its own mount namespace: other processes do
not see what it mounts. enable refuses a service that it sees mounting for
others, and warns of one that may.

examples:
  hugealign enable --dry-run mariadb     print what it would write
  hugealign enable --now --fix --libs mariadb
  hugealign ps mariadb
  hugealign disable --now mariadb
  hugealign enable --all --dry-run       print what it would make huge, and why not more
"""
STATUS = {
    0: "done",
    1: "a UNIT was left unchanged, or a part of --all could not be made huge; the message says why",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("units", nargs="*", metavar="UNIT", help="a service, with or without .service")
    add("--dry-run", action="store_true", help="only print the files that enable would write, or the plan of --all")
    add("--now", action="store_true", help="also restart UNIT, or start it, so that it runs from huge text")
    add("--fix", action="store_true", help="run from fixed copies of the files that fix gives more windows")
    add(
        "--libs",
        action="store_true",
        help="include shared libraries with 1 MiB of text; if UNIT runs, all that it loaded",
    )
    about = "include this program or library, or those below this directory; may be repeated"
    add("--file", metavar="PATH", action="append", default=[], help=about)
    about = "for the service that enable writes: look UNIT's files up again and prepare them, before UNIT starts"
    add("--renew", action="store_true", help=about)
    about = "the most memory for the copies of UNIT, or with --all for all of it: 512M, or 2%% (default of --all: 2%%)"
    add("--max", metavar="SIZE", help=about)
    group = parser.add_argument_group("the whole machine")
    add = group.add_argument
    add("--all", action="store_true", help="take what gains on the whole machine, instead of UNIT")
    about = "the least saving, in per cent of a program's own processor time (default: 1)"
    add("--least", metavar="PERCENT", type=percentage, help=about)
    add("--everything", action="store_true", help="take all text that is in use, whatever it saves")
    add("--for", metavar="SECONDS", type=seconds, dest="seconds", help="look at the machine for so long (default: 10)")
    add("-v", "--verbose", action="store_true", help="print why each of the others is left")
    add("--hold", action="store_true", help="for the service that --all writes: hold text in memory")
    add_json(parser.add_argument, "schema hugealign.enable/1; with --all, hugealign.machine-plan/1")


def run(args: argparse.Namespace) -> int:
    """Enable or show, and return the exit status."""
    os.umask(0o022)  # everyone reads, and only we change, what the system runs
    if args.all:
        from hugealign.cli import machine

        return machine.enable(args)
    if machine_only := [name for name in ("least", "everything", "seconds", "hold") if getattr(args, name)]:
        raise UsageError(f"--{machine_only[0].replace('seconds', 'for')}: only with --all")
    if not args.units:
        raise UsageError("which UNIT? For the whole machine: --all")
    return _units(args)


def _units(args: argparse.Namespace) -> int:
    from hugealign.diagnosis import render
    from hugealign.diagnosis.values import Remedy
    from hugealign.services import enable

    options = enable.EnableOptions(args.file, args.libs, args.fix, arguments.memory(args.max), args.now)

    def renewed(unit: str) -> tuple[list[str], list[str]]:
        done = enable.renew(unit, options)
        for diagnosis in done.failed:
            messages.warning(f"{printable(diagnosis.subject)}: {render.text(diagnosis)}")
        paths = [*done.staged, *done.warmed]
        return paths, [f"{printable(path)}: ready" for path in paths]

    def work(unit: str) -> tuple[list[str], list[str]]:
        done = (enable.plan if args.dry_run else enable.enable)(unit, options)
        if not args.dry_run:
            from hugealign.machine import machine

            machine.leave([done.name])
        for diagnosis in done.left:
            messages.warning(f"{printable(diagnosis.subject)}: {render.text(diagnosis)}")
        paths = list(done.texts)
        copies = f"{counted(len(done.staged), 'copy', 'copies')} in memory, {format_size(done.memory)} in huge pages"
        copies += f", {format_size(done.executable)} of read-only data executable" if done.executable else ""
        if args.dry_run:
            return paths, [*(f"# {printable(path)}\n{text}" for path, text in done.texts.items()), f"# {copies}"]
        lines = [*(f"wrote {printable(path)}" for path in paths), *([copies] if done.staged else [])]
        if args.now:
            services.restart(done.name, Remedy("undo", ("hugealign", "disable", "--now", unit)))
            return paths, [*lines, f"restarted {printable(done.name)}"]
        return paths, [*lines, render.remedy(Remedy("now", ("systemctl", "restart", done.name)))]

    return services.each(args, renewed if args.renew else work)
