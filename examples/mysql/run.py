#!/usr/bin/env python3
"""Build Debian's MariaDB once; link its server plain, with hugealign and in the order of a profile; compare.

The server's objects are compiled once, through CMake with hugealign's toolchain file.  Then: MariaDB's own tests on the
server so linked, ``hugealign verify``, ``warm``, ``ps`` of the running server, sysbench in turn, a profile, an order,
links in that order, and a trace of fixed SQL replayed under these layouts.  One report, in Markdown and HTML.

Root is used for missing Debian packages only; everything else runs as an ordinary user.  Every finished step leaves a
stamp, so that a second run continues where the first one stopped.
Exit status: 0 all promises kept, 1 one is broken, 2 usage, 3 something on this machine is missing.
"""

import argparse
import contextlib
import filecmp
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[1:1] = [str(ROOT / "examples"), str(ROOT / "examples" / "postgres")]

import debian  # noqa: E402 - found by the line above, as are the next
import mariadb  # noqa: E402
import mysqljob  # noqa: E402
import mysqlreport  # noqa: E402
import reference  # noqa: E402
import tracing  # noqa: E402
from mysqlserver import WORKLOADS, Place, Server, running  # noqa: E402
from pgserver import WINDOW, recorded  # noqa: E402
from steps import Failed, Steps, interleaved  # noqa: E402

_PACKAGES = (*mariadb.BUILD_PACKAGES, "python3", "sysbench", "linux-perf", "qemu-user", "util-linux")
VARIANTS = ("plain", "hugealign", "ordered", "leading")
# The processors that the orders are for.  Named, so that the orders do not depend on the machine that runs this.
_ORDERS = {"ordered": ["--cpu", "skylake"], "leading": ["--itlb-2m", "2"]}


@dataclass(frozen=True, slots=True)
class Example:
    """The example's directories and choices."""

    steps: Steps
    check: bool
    rounds: int
    seconds: int

    @property
    def build(self) -> Path:
        """Where everything is."""
        return self.steps.build

    @property
    def source(self) -> Path:
        """Where Debian's source is."""
        return debian.unpacked(self.steps, mariadb.PACKAGE)

    @property
    def tree(self) -> Path:
        """Where CMake builds."""
        return self.build / "tree"

    @property
    def place(self) -> Place:
        """Return what servers need to know."""
        return Place(self.steps, self.source, self.tree)

    def program(self, variant: str) -> Path:
        """Return a variant of the server."""
        return self.build / "links" / variant / mariadb.SERVER

    def order(self, variant: str) -> Path:
        """Return the order file of a variant."""
        return self.build / "orders" / f"{variant}.order"

    def reference(self) -> reference.Reference | None:
        """Return the reference run, its orders beside this run's."""
        return reference.read(Path(__file__).parent / "reference", self.steps.directory("orders"))

    def profile(self, name: str, workload: str) -> Path:
        """Return a profile of the server *name*."""
        return self.build / "profiles" / f"{name}-{workload}.perf"

    def servers(self, variants: tuple[str, ...], sockets: Path) -> list[Server]:
        """Return servers, each on a new copy of the filled data."""
        found = []
        for variant in variants:
            data = self.steps.directory("data") / variant
            self.steps.output(["rm", "-rf", data])
            self.steps.output(["cp", "-a", self.build / "data" / "filled", data])
            found.append(Server(self.place, variant, self.program(variant), data, sockets / variant))
        return found


# ---- building --------------------------------------------------------------------------------------------------------


def get_source(example: Example) -> None:
    """Fetch and unpack Debian's source."""
    steps = example.steps
    if steps.done("source") is None:
        steps.say(f"the source of {mariadb.PACKAGE}, from Debian …")
        start = time.monotonic()
        debian.fetch(steps, mariadb.PACKAGE)
        steps.stamp("source", start)
    steps.say(f"MariaDB {mariadb.version(example.source)}")


def build(example: Example) -> None:
    """Configure, compile and link by CMake, with the toolchain file."""
    steps, jobs = example.steps, os.cpu_count() or 1
    tree = steps.directory("tree")
    toolchain = Path(steps.output(["hugealign", "path", "--toolchain"]).strip())
    steps.once(
        "configure",
        'cmake -DCMAKE_TOOLCHAIN_FILE="$(hugealign path --toolchain)"',
        mariadb.configure(example.source, toolchain),
        cwd=tree,
    )
    for name, targets in (("make-server", [mariadb.SERVER]), ("make-tools", mariadb.TOOLS)):
        with ticking(steps, name):
            words = f"make -j{jobs} {targets[0]}" + f" and {len(targets) - 1} more" * (len(targets) > 1)
            steps.once(name, words, ["make", f"-j{jobs}", *targets], cwd=tree)
    for name in ("configure", "make-server", "make-tools"):
        said = [line for line in steps.log(name).read_text(errors="replace").splitlines() if "hugealign: " in line]
        steps.promise(not said, f"the wrapper printed something: {said[:1]} (log: {steps.log(name)})")


@contextmanager
def ticking(steps: Steps, name: str) -> Iterator[None]:
    """Say once a minute how far make is, by its log."""
    end = threading.Event()

    def watch() -> None:
        while not end.wait(60):
            found = re.findall(r"(?m)^\[ *(\d+)%\]", steps.log(name).read_text(errors="replace"))
            if found and steps.done(name) is None:
                steps.say(f"  {found[-1]} %")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def link(example: Example, variant: str, *compiler: str) -> None:
    """Link the server's objects again, by *compiler* and its words."""
    script = example.build / "relink.sh"
    directory = example.steps.directory("links", variant)
    words = [script, directory / mariadb.SERVER, *compiler]
    example.steps.once(f"link-{variant}", f"{variant}: relink.sh {' '.join(compiler) or 'by plain c++'}", words)


def link_first(example: Example) -> None:
    """Make ``plain``; take ``hugealign`` from CMake, and hold it against what relink.sh gives."""
    steps, directory = example.steps, example.tree / "sql"
    script = example.build / "relink.sh"
    command = (directory / "CMakeFiles" / f"{mariadb.SERVER}.dir" / "link.txt").read_text(encoding="utf-8")
    script.write_text(mariadb.relink_script(command, directory), encoding="utf-8")
    script.chmod(0o755)
    steps.directory("links")
    link(example, "plain")
    steps.directory("links", "hugealign")
    steps.once(
        "link-hugealign",
        "hugealign: as CMake linked it",
        ["cp", directory / mariadb.SERVER, example.program("hugealign")],
    )
    link(example, "again", "hugealign", "c++")
    steps.promise(
        filecmp.cmp(example.program("again"), example.program("hugealign"), shallow=False),
        "relink.sh with hugealign gives something else than CMake's link with the toolchain file",
    )


# ---- proofs ----------------------------------------------------------------------------------------------------------


def keep(example: Example, name: str, words: str, make: Callable[[], Any]) -> Any:
    """Return what *make* returns, or returned in an earlier run: the results are kept as JSON."""
    steps = example.steps
    path = steps.directory("results") / f"{name}.json"
    if steps.done(name) is None:
        steps.say(f"{words} …")
        start = time.monotonic()
        text = json.dumps(make(), indent=1)
        path.write_text(text + "\n", encoding="utf-8")
        steps.stamp(name, start)
    steps.say(f"{words}: {steps.done(name)} s")
    return json.loads(path.read_text(encoding="utf-8"))


def own_tests(example: Example) -> dict[str, int] | None:
    """Run MariaDB's tests on what CMake linked."""
    if not example.check:
        return None
    words = f"mtr: {len(mariadb.TESTS)} of MariaDB's own tests, on the server with hugealign"
    found: dict[str, int] = keep(example, "check", words, partial(mariadb.check, example.steps, example.tree))
    example.steps.promise(
        found["status"] == 0 and found["failed"] == 0 and found["passed"] >= found["asked"],
        f"MariaDB's own tests: {found} (log: {example.steps.log('check')})",
    )
    return found


def verify(example: Example, variant: str) -> dict[str, Any]:
    """Hold a server against the rules; for all but ``plain``, promise that it is clean."""
    steps, program = example.steps, example.program(variant)
    said = json.loads(steps.output(["hugealign", "verify", "--format", "json", program], accept=(0, 1)))
    found = said["files"][0]
    if variant != "plain":
        words = ", ".join(f"{finding['id']} {finding['message']}" for finding in found["findings"])
        steps.promise(found["verdict"] == "ok", f"hugealign verify: {variant}: {words}")
    size = program.stat()
    return {**found["coverage"], "verdict": found["verdict"], "size": size.st_size, "disk": size.st_blocks * 512}


def verify_tools(example: Example) -> int:
    """Hold everything else that CMake linked against the rules; return how many files."""
    files = [
        path
        for directory in ("client", "extra", "storage", "sql", "mysql-test")
        for path in sorted((example.tree / directory).rglob("*"))
        if path.is_file() and not path.is_symlink() and os.access(path, os.X_OK) and _elf(path)
    ]
    status = example.steps.run(["hugealign", "verify", *files], log="verify", accept=(0, 1))
    example.steps.promise(not status, f"hugealign verify is not clean (log: {example.steps.log('verify')})")
    return len(files)


def _elf(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4) == b"\x7fELF"


def fill(example: Example) -> None:
    """Make the data that every server gets a copy of."""
    steps = example.steps
    if steps.done("fill") is not None:
        return
    steps.say("data: mariadb-install-db, sysbench prepare …")
    start = time.monotonic()
    data = steps.directory("data") / "filled"
    example.place.create(data)
    with socket_directory(steps) as sockets:
        server = Server(example.place, "fill", example.program("hugealign"), data, sockets / "fill")
        with running([server]):
            server.fill()
    steps.stamp("fill", start)


@contextmanager
def socket_directory(steps: Steps) -> Iterator[Path]:
    """Make a directory with a short path: that of a socket has 107 bytes at most."""
    path = Path(tempfile.mkdtemp(prefix="hugealign-mysql.", dir="/tmp"))
    try:
        if os.geteuid() == 0:
            found = pwd.getpwnam(steps.user)
            os.chown(path, found.pw_uid, found.pw_gid)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def warm(example: Example, variant: str) -> None:
    """Bring a server's text into huge folios."""
    status = example.steps.run(["hugealign", "warm", example.program(variant)], log=f"warm-{variant}", accept=(0, 1))
    example.steps.promise(not status, f"{variant}: hugealign warm: {example.steps.log(f'warm-{variant}').read_text()}")


# ---- the profile -----------------------------------------------------------------------------------------------------


def profile(example: Example, variant: str, seed: int) -> dict[str, Any]:
    """Record sysbench's workloads on a server; return how the samples in its text are spread over windows."""
    steps = example.steps
    steps.directory("profiles")
    offsets: list[int] = []
    warm_it = variant != "plain"
    if warm_it:
        warm(example, variant)
    with socket_directory(steps) as sockets, running(example.servers((variant,), sockets)) as (server,):
        for workload in WORKLOADS:
            output = example.profile(variant, workload)
            steps.output(["rm", "-f", output])
            text = server.record(workload, output, 4 * example.seconds, seed)
            found = recorded(steps, output, text)
            offsets += found.offsets
    windows = max(offsets, default=0) // WINDOW + 1
    return {
        "samples": len(offsets),
        "pages": len({offset >> 12 for offset in offsets}),
        "windows": [sum(offset // WINDOW == at for offset in offsets) for at in range(windows)],
    }


def make_order(example: Example, variant: str) -> str:
    """Make the order of a variant from the profiles of ``hugealign``; return what was printed."""
    example.steps.directory("orders")
    profiles = [example.profile("hugealign", workload) for workload in WORKLOADS]
    words = ["-b", example.program("hugealign"), "-o", example.order(variant), *_ORDERS[variant]]
    return example.steps.output(["hugealign", "order", *profiles, *words]).replace(f"{example.build}/", "")


# ---- measuring -------------------------------------------------------------------------------------------------------


def start_anew(servers: Sequence[Server]) -> None:
    """Stop all, and start each on the data of the next, so that none keeps its place: see PostgreSQL's example."""
    for server in servers:
        server.stop()
    data = [server.data for server in servers]
    for server, of_next in zip(servers, [*data[1:], data[0]], strict=True):
        server.data = of_next
        server.start()


def measure(example: Example) -> dict[str, Any]:
    """Warm, start all servers, ask the kernel about their text, then run sysbench on each in turn."""
    steps = example.steps
    found: dict[str, Any] = {"text": {}, "ps": {}, "counters": {}}
    for variant in VARIANTS[1:]:
        warm(example, variant)
    with socket_directory(steps) as sockets, running(example.servers(VARIANTS, sockets)) as servers:
        by_name = {server.name: server for server in servers}
        for server in servers:
            for workload in WORKLOADS:  # once before it counts
                server.transactions(workload, 2, 1)
            text = server.text()
            found["text"][server.name] = {"mapped": text.end - text.start, "huge": text.huge}
            said = steps.output(["hugealign", "ps", server.pid], accept=(0, 1))
            found["ps"][server.name] = said.replace(f"{example.build}/", "")
        runs: dict[str, dict[str, list[tuple[float, float]]]]
        runs = {workload: {variant: [] for variant in VARIANTS} for workload in WORKLOADS}
        load = [os.getloadavg()[0]]
        for number, names in enumerate(interleaved(VARIANTS, example.rounds), 1):
            steps.say(f"  round {number} of {example.rounds}: {', '.join(names)}")
            start_anew(servers)
            for server in servers:
                server.transactions(WORKLOADS[0], 1, number)
                kept = found["text"][server.name]
                kept["huge"] = min(kept["huge"], server.text().huge)
            for workload in WORKLOADS:
                for name in names:
                    runs[workload][name].append(by_name[name].transactions(workload, example.seconds, 1000 + number))
            load.append(os.getloadavg()[0])
        found["runs"], found["load"] = runs, max(load)
        for server in servers:
            found["counters"][server.name] = server.counters(WORKLOADS[0], example.seconds)
    return found


def trace(example: Example) -> dict[str, Any]:
    """Trace fixed SQL on ``hugealign`` twice and on the servers linked in order; replay, in the reference's orders too.

    The second time is on data made anew, and on one processor only: it is to come out the same all the same.
    """
    steps, kept = example.steps, example.reference()
    orders = [*map(example.order, _ORDERS), *(kept.orders.values() if kept else ())]
    found: dict[str, Any] = {}
    with socket_directory(steps) as home:
        tracer = mysqljob.Tracer(steps, example.place, home)
        tracer.prepare()
        for number, name in enumerate(("hugealign", "hugealign-2", *_ORDERS)):
            output = steps.directory("traces") / f"{name}.trace"
            program = example.program(name.removesuffix("-2"))
            if steps.done(f"trace-{name}") is None:
                steps.say(f"  {name}: hugealign trace: mariadbd --bootstrap, {mysqljob.TRANSACTIONS} transactions …")
                start = time.monotonic()
                tracer.fill(example.program("hugealign"))
                tracer.trace(program, output, tracing.last_processor() if number == 1 else None)
                steps.stamp(f"trace-{name}", start)
            layouts = ["original", "all-4k", "all-2m"]
            if name == "hugealign":
                layouts += [f"order:{order}" for order in orders]
            steps.say(f"  {name}: hugealign simulate …")
            found[name] = tracer.simulate(program, output, layouts, 8)
    return found


# ---- all of it -------------------------------------------------------------------------------------------------------


def run(example: Example) -> None:
    """Do all steps."""
    results: dict[str, Any] = {}
    get_source(example)
    build(example)
    link_first(example)
    results["check"] = own_tests(example)
    results["tools"] = verify_tools(example)
    fill(example)
    results["profile"] = {
        "hugealign": keep(
            example,
            "profile-hugealign",
            "hugealign: perf record -e cpu-clock:u",
            partial(profile, example, "hugealign", 11),
        )
    }
    results["orders"] = {
        name: keep(example, f"order-{name}", f"hugealign order {' '.join(words)}", partial(make_order, example, name))
        for name, words in _ORDERS.items()
    }
    for name in _ORDERS:
        link(example, name, "hugealign", f"--profile={example.order(name)}", "c++")
    for name in ("plain", *_ORDERS):
        words = f"{name}: a new profile, of other queries"
        results["profile"][name] = keep(example, f"profile-{name}", words, partial(profile, example, name, 12))
    results["verify"] = {variant: verify(example, variant) for variant in VARIANTS}
    results["measure"] = keep(example, "measure", "sysbench, all servers in turn", partial(measure, example))
    results["trace"] = keep(example, "trace", "hugealign trace and simulate", partial(trace, example))
    check_repeat(example, results["trace"])
    results["reference"] = reference.check(
        example.steps,
        example.reference(),
        results["trace"]["hugealign"],
        {name: example.order(name) for name in _ORDERS},
        reference.versions(example.steps, mariadb.COUNTING_PACKAGES) | {"source": mariadb.version(example.source)},
    )
    for variant in VARIANTS[1:]:
        check_text(example, variant, results["measure"]["text"][variant])
    write_report(example, results)


def check_repeat(example: Example, found: dict[str, Any]) -> None:
    """Promise that two recordings of one server give the same counts, to the digit."""
    words = "two recordings of the same server give different counts"
    example.steps.promise(not mysqlreport.differences(found["hugealign"], found["hugealign-2"]), words)


def check_text(example: Example, variant: str, text: dict[str, int]) -> None:
    """Promise that the kernel mapped as much of the text with PMDs as the link asked for."""
    windows = text["mapped"] // WINDOW
    if variant in _ORDERS:
        found = re.search(r"(?m)^# windows: (\d+)", example.order(variant).read_text(encoding="utf-8"))
        windows = min(windows, int(found[1])) if found else windows
    words = f"{variant}: the kernel maps {text['huge'] >> 10} KiB of {windows * WINDOW >> 10} KiB with PMDs"
    example.steps.promise(text["huge"] >= windows * WINDOW > 0, words)


def write_report(example: Example, results: dict[str, Any]) -> None:
    """Write the report and say where."""
    steps = example.steps
    results["seconds"] = {
        path.name: int(path.read_text()) for path in sorted((example.build / "stamps").glob("[a-z]*"))
    }
    results["version"] = mariadb.version(example.source)
    document = mysqlreport.document(example.build, results)
    path = steps.directory("results") / "report.json"
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    output = example.build / "report"
    subprocess.run([sys.executable, ROOT / "examples" / "report.py", path, "-o", output, "--name", "mysql"], check=True)
    steps.say(f"the report: {output}/mysql.md")


def arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(prog="run.py", description="MariaDB on huge pages: build, prove, measure, report.")
    add = parser.add_argument
    add(
        "--build-dir",
        type=Path,
        metavar="DIR",
        help="where everything is built (default: build/mysql in the repository)",
    )
    add("--clean", action="store_true", help="begin with an empty build directory instead of resuming")
    add("--no-check", action="store_true", help="leave out MariaDB's own tests")
    add("--rounds", type=int, default=12, help="runs of each sysbench workload on each server (default: %(default)s)")
    add("--seconds", type=int, default=5, help="of each run; profiles take four times as long (default: %(default)s)")
    args = parser.parse_args()
    if args.rounds < 2 or args.seconds < 1:
        parser.error("--rounds: at least 2; --seconds: at least 1")
    return args


def ordinary_user() -> str:
    """Return who runs what root is not needed for: mariadbd refuses to run as root."""
    if os.geteuid():
        return pwd.getpwuid(os.geteuid()).pw_name
    user = os.environ.get("SUDO_USER", "nobody")
    return "nobody" if user == "root" else user


def open_directory(steps: Steps, clean: bool) -> None:
    """Make the build directory; put the tool first in PATH, the checkout's or a copy that the user can read."""
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
    home = steps.directory("home")
    keep_only = {key: value for key, value in os.environ.items() if key in ("TERM", "TMPDIR")}
    os.environ.clear()
    os.environ.update(keep_only, HOME=str(home), LC_ALL="C", PATH="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
    if not reachable(steps, home):
        raise Failed(f"user '{steps.user}' cannot reach {build}: choose another --build-dir", 3)
    tool = ROOT
    if not reachable(steps, ROOT / "bin" / "hugealign"):
        tool = build / "tool"
        steps.say(f"user '{steps.user}' cannot read {ROOT}: using a copy in {tool}")
        shutil.rmtree(tool, ignore_errors=True)
        for name in ("bin", "hugealign", "ld-scripts", "cmake"):
            shutil.copytree(ROOT / name, tool / name, ignore=shutil.ignore_patterns("__pycache__"))
    os.environ["PATH"] = f"{tool / 'bin'}:{os.environ['PATH']}"


def reachable(steps: Steps, path: Path) -> bool:
    """Tell whether the user can read *path*."""
    try:
        steps.output(["test", "-r", path])
    except (Failed, OSError):
        return False
    return True


def end(number: int, _: object) -> None:
    """Pass a signal on to all that was started, make's makes too, and end: only a terminal tells them by itself."""
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    sys.exit(128 + number)


def descendants(pid: int) -> list[int]:
    """Return the processes that *pid* has started, and those that they have."""
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text(encoding="ascii").split():
                found += [int(child), *descendants(int(child))]
    return found


def main() -> int:
    """Do all steps; return the exit status."""
    args = arguments()
    user = ordinary_user()
    chosen = (args.build_dir or ROOT / "build" / "mysql").absolute()
    steps = Steps(chosen, user, time.time())
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, end)
    try:
        debian.codename()
        open_directory(steps, args.clean)
        debian.install(steps, _PACKAGES)
        run(Example(steps, not args.no_check, args.rounds, args.seconds))
    except Failed as failed:
        print(f"run.py: {failed}", file=sys.stderr)
        return failed.status
    except KeyboardInterrupt:
        return 130
    if steps.broken:
        print(f"run.py: {len(steps.broken)} promise(s) broken, see above", file=sys.stderr)
        return 1
    steps.say("every promise kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
