"""The driver: builds a server four times, proves where its text is, measures, reports."""

import argparse
import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from examples.servers import debian, report
from examples.servers.live import live, make_order, profile, short_directory
from examples.servers.server import VARIANTS, Example, Server, read
from examples.servers.steps import ANY, ROOT, Failed, Steps
from examples.servers.text import perf_rights
from examples.servers.tracing import trace
from hugealign.errors import HugealignError
from hugealign.io import replacing
from hugealign.io.numbers import decimal

_PACKAGES = ("python3", "linux-perf", "qemu-user", "util-linux")
_ENVIRONMENT = ("TERM", "TMPDIR", "http_proxy", "https_proxy", "no_proxy")  # what is kept of it
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def arguments(words: list[str]) -> tuple[Server, argparse.Namespace]:
    """Return the server and the options that *words* name."""
    kind = read(words[0])
    parser = argparse.ArgumentParser(
        prog=Path(kind.command).name,
        description=f"Build Debian's {kind.title} plain, with hugealign and in the order of a profile; prove the "
        "difference. Finished steps leave stamps, so that a second run resumes, and repeats only the measurements.",
        allow_abbrev=False,
        epilog="Exit status: 0 all promises kept, 1 one is broken, 2 usage, 3 something on this machine is missing.",
    )
    add = parser.add_argument
    where = f"where everything is built (default: build/{kind.name} in the repository)"
    add("--build-dir", type=Path, metavar="DIR", help=where)
    add("--clean", action="store_true", help="begin with an empty build directory instead of resuming")
    add("--no-check", action="store_true", help=f"leave out {kind.title}'s own tests")
    if len(kind.sources) > 1:
        add("--no-stale", action="store_true", help="leave out the profiles of older versions")
    number = "how often each load runs on each server (default: %(default)s)"
    add("--rounds", type=_from(2), default=kind.rounds, metavar="N", help=number)
    number = "of each run of a load (default: %(default)s)"
    add("--seconds", type=_from(1), default=kind.seconds, metavar="N", help=number)
    return kind, parser.parse_args(words[1:])


def _from(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        with contextlib.suppress(HugealignError):
            if (result := decimal(text, 9999)) >= least:
                return result
        raise argparse.ArgumentTypeError(f"not a number from {least} to 9999: {text}")

    return number


def ordinary_user() -> str:
    """Return who runs what root is not needed for: the servers refuse to run as root."""
    user = pwd.getpwuid(os.geteuid()).pw_name if os.geteuid() else os.environ.get("SUDO_USER", "nobody")
    return "nobody" if user == "root" else user


def open_directory(steps: Steps, *, clean: bool, fallback: Path | None) -> None:
    """Make the build directory, which may be the *fallback*; put the tool first in PATH, perhaps a readable copy."""
    os.environ.update({"HOME": "/", "LC_ALL": "C", "TZ": "UTC", "PATH": _PATH})
    for name in set(os.environ) - {*_ENVIRONMENT, "HOME", "LC_ALL", "TZ", "PATH"}:
        del os.environ[name]
    if fallback and not _may(steps, "-x", next(path for path in steps.build.parents if path.is_dir())):
        steps.say(f"user '{steps.user}' cannot reach {ROOT}: building in {fallback}")
        steps.build = fallback
    build = steps.build
    if re.search(r"[^A-Za-z0-9/._+-]", str(build)):
        raise Failed(f"the build directory must not contain spaces or special characters: {build}", 2)
    if build.exists() and any(build.iterdir()) and not (build / "stamps").is_dir():
        raise Failed(f"{build} is not empty and not from an earlier run: choose another --build-dir", 2)
    if clean and build.exists():
        steps.say(f"removing {build}")
        shutil.rmtree(build)
    for name in ("stamps", "logs"):
        (build / name).mkdir(parents=True, exist_ok=True)
    steps.resume()
    os.environ["HOME"] = str(steps.directory("home"))
    if not _may(steps, "-w", build / "home"):
        words = "cannot write there: use --clean or another --build-dir"
        raise Failed(f"user '{steps.user}' cannot reach {build}, or it is another user's, and {words}", 3)
    tool = ROOT
    if not _may(steps, "-r", ROOT / "bin" / "hugealign"):
        tool = build / "tool"
        steps.say(f"user '{steps.user}' cannot read {ROOT}: using a copy in {tool}")
        shutil.rmtree(tool, ignore_errors=True)
        for name in ("bin", "hugealign", "ld-scripts", "cmake"):
            shutil.copytree(ROOT / name, tool / name, ignore=shutil.ignore_patterns("__pycache__"))
    os.environ["PATH"] = f"{tool / 'bin'}:{_PATH}"


def _may(steps: Steps, how: str, path: Path) -> bool:
    """Tell whether the user can do what test(1) calls *how* with *path*."""
    words = ["test", how, str(path)]
    return not subprocess.run([*steps.as_user(), *words], cwd="/", check=False).returncode


def run(example: Example) -> None:
    """Do all steps."""
    steps, server = example.steps, example.server
    perf_rights()  # ends here, not after the builds, if perf may not record
    title = f"the sources of {server.title}, from Debian"
    steps.step("source", title, lambda: debian.fetch(steps, example.sources, server.suites))
    for name in ("", *example.older):
        steps.say(f"{name or 'to be built'}: {server.title} {example.version(name)}")
    example.make(server.builds)
    for words, command in server.promises.items():
        status = steps.run(example.words(command), log="promises", append=True, accept=ANY)
        steps.promise(not status, f"not so: {words}")
    with short_directory(steps, server.name) as sockets:
        for variant in ("hugealign", *example.older):
            profile(example, variant, sockets)
        steps.directory("orders")
        sources = dict.fromkeys(server.orders, "hugealign") | {name: name for name in example.older}
        orders = {name: make_order(example, source, name) for name, source in sources.items()}
        example.make(server.links)
        tests = {name: example.test(name, sockets) for name in server.test["variants"] if example.check}
        others = example.verify_others()
        coverage = {variant: example.verify(variant) for variant in VARIANTS}
        example.place()
        measured = live(example, sockets)
    with short_directory(steps, server.name) as home:
        traced = trace(example, home, {name: example.order(name) for name in orders})
    results = report.Results(coverage, others, tests, orders, measured, traced)
    text, pictures = report.report(example, results)
    output = steps.build / "report"
    output.mkdir(exist_ok=True)
    for number, picture in enumerate(pictures, 1):
        replacing.write(f"{output}/{server.name}-{number}.svg", picture.encode())
    replacing.write(f"{output}/{server.name}.md", text.encode())
    for row in (["", *VARIANTS], *report.servers(example, results)):
        print(f"{row[0]:34}" + "".join(f"{cell!s:>19}" for cell in row[1:]))
    steps.say(f"the report: {output}/{server.name}.md")


def end(number: int, _: object) -> None:
    """Pass a signal on to all that was started, make's makes too, and end: only a terminal tells them by itself."""
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    sys.exit(128 + number)


def descendants(pid: int) -> list[int]:
    """Return the processes that *pid* has started, and those that they have."""
    result = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text(encoding="ascii").split():
                result += [int(child), *descendants(int(child))]
    return result


def main() -> int:
    """Do all steps; return the exit status."""
    kind, args = arguments(sys.argv[1:])
    steps = Steps((args.build_dir or ROOT / "build" / kind.name).absolute(), ordinary_user())
    name = Path(kind.command).name
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, end)
    try:
        debian.this_release()
        fallback = None if args.build_dir else Path("/var/tmp", f"hugealign-{kind.name}")  # noqa: S108
        open_directory(steps, clean=args.clean, fallback=fallback)
        debian.install(steps, (*kind.packages.split(), *_PACKAGES))
        stale = not getattr(args, "no_stale", True)
        run(Example(kind, steps, args.rounds, args.seconds, check=not args.no_check, stale=stale))
    except (Failed, HugealignError) as failed:
        print(f"{name}: {failed}", file=sys.stderr)
        return failed.status if isinstance(failed, Failed) else 1
    except KeyboardInterrupt:
        return 130
    if steps.broken:
        print(f"{name}: {len(steps.broken)} promise(s) broken, see above", file=sys.stderr)
        return 1
    steps.say("every promise kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
