"""Two releases of a real server in one fleet, and what the order of all is worth to the newer one, in misses.

PostgreSQL 15 and 13 of examples/postgres are built from Debian's sources; each is recorded by perf on some hosts, which
are runs of pgbench with draws of their own.  Their counts are merged, an order of the sum links the newer release, and
a fixed job is traced and replayed under that order, under orders of parts of the counts, and in the server linked so.
"""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.servers import debian
from examples.servers.live import instances, record, short_directory
from examples.servers.server import Example, Server, read, running
from examples.servers.steps import Steps
from examples.servers.text import perf_rights
from examples.servers.tracing import Traced, trace
from hugealign.profile import counts

NEW, OLD = "hugealign", "major"  # as examples/postgres calls the builds of its releases
LINKED = "ordered"
HOSTS = 3  # of each release
OPTIONS = "--windows 1"  # one window is to be huge: with more the text of this server fits, whatever its order
_PACKAGES = ("linux-perf", "qemu-user", "util-linux")
#: Of the compiler at work, as a program with many functions: files of the older release.
_COMPILED = "executor/*.c optimizer/*/*.c commands/*.c"


@dataclass(frozen=True, slots=True)
class Order:
    """An order for the newer release: what it was made *of*, and how many of *total* samples were *found*."""

    of: str
    total: int
    found: int


@dataclass(frozen=True, slots=True)
class Releases:
    """What was found: the *versions* of both releases, *orders* by name, what `order` printed of all, the replays."""

    versions: tuple[str, str]
    orders: Mapping[str, Order]
    said: str
    traced: Traced
    hosts: Path  # the counts of all hosts
    compiler: Path  # the counts of gcc's cc1 at work


def server() -> Server:
    """Return PostgreSQL with the two builds alone, and with the order of the fleet."""
    whole = read("postgres")
    wanted = (NEW, OLD)
    builds = [
        {**build, "variants": {name: cc for name, cc in build["variants"].items() if name in wanted}}
        for build in whole.builds
    ]
    links = [
        {**link, "variants": {name: cc for name, cc in link["variants"].items() if name == LINKED}}
        for link in whole.links
    ]
    return dataclasses.replace(
        whole,
        sources=[source for source in whole.sources if source["name"] in ("current", OLD)],
        builds=builds,
        links=links,
        orders={LINKED: OPTIONS},
        places={**whole.places, "client": "{build}/install/postgres-hugealign/bin"},
    )


def releases(steps: Steps, merged: Callable[[Path], bytes]) -> Releases:
    """Do all steps; *merged* returns the sum of a directory of counts, as the cluster made it."""
    kind = server()
    example = Example(kind, steps, kind.rounds, kind.seconds)
    debian.install(steps, (*kind.packages.split(), *_PACKAGES))
    steps.step("source", f"the sources of {kind.title}", lambda: debian.fetch(steps, example.sources, kind.suites))
    example.make(kind.builds)
    with short_directory(steps, "fleet") as sockets:
        for variant in (NEW, OLD):
            _recorded(example, variant, sockets)
    compiler = _compiler(example)
    orders, output = _orders(example, merged)
    example.make(kind.links)
    traced = _traced(example, orders)
    versions = (example.version(), example.version(OLD))
    return Releases(versions, orders, output, traced, steps.build / "hosts", compiler)


def _recorded(example: Example, variant: str, sockets: Path) -> None:
    """Record the hosts of a release, each with draws of its own, and reduce what perf wrote."""
    steps = example.steps
    stacks = example.server.stacks.split()

    def make() -> None:
        with running(instances(example, (variant,), sockets)) as (item,):
            for host in range(HOSTS):
                record(item, f"{variant}-host{host}", 20 + host, stacks)

    steps.step(f"{variant}-record", f"{variant}: {HOSTS} hosts, perf record, {example.server.trained}", make)
    program = example.program(variant)
    for host in range(HOSTS):
        _reduced(steps, [_data(steps, variant, host)], program, steps.directory("hosts") / f"{variant}-{host}.counts")


def _data(steps: Steps, variant: str, host: int) -> Path:
    return steps.build / "profiles" / f"{variant}-host{host}-0.data"


def _reduced(steps: Steps, profiles: Sequence[Path], program: Path, target: Path) -> None:
    steps.output(["hugealign", "profile", "reduce", *profiles, "-b", program, "-o", target])


def _compiler(example: Example) -> Path:
    """Record gcc as it compiles files of the older release; return the counts."""
    steps = example.steps
    target, data = steps.directory("compiler") / "cc1.counts", steps.directory("profiles") / "cc1.data"
    source, tree = steps.build / "source" / OLD / "src", steps.build / "trees" / OLD / "src"
    include = " ".join(f"-I{place}" for place in (tree / "include", source / "include", tree / "backend/parser"))
    script = f"for file in {_COMPILED}; do gcc -O2 -w {include} -I$(dirname $file) -c $file -o /dev/null || exit; done"

    def make() -> None:
        perf = ["perf", "record", "-q", "-N", "-e", "cpu-clock:u", "-F", "4999", "-o", data]
        steps.output(["rm", "-f", data])
        steps.run([*perf, "--", "sh", "-c", script], log="compiler", cwd=source / "backend", rights=perf_rights())
        cc1 = Path(steps.output(["gcc", "-print-prog-name=cc1"]).strip())
        _reduced(steps, [data], cc1, target)

    steps.step("compiler", "gcc as it compiles some files: perf record", make)
    return target


def _traced(example: Example, orders: Iterable[str]) -> Traced:
    """Trace the job and replay it in all *orders*, unless that was done."""

    def make() -> dict[str, Any]:
        with short_directory(example.steps, example.server.name) as home:
            return dataclasses.asdict(trace(example, home, {name: example.order(name) for name in orders}))

    result = example.steps.step("traced", f"traces of {example.server.trace['job']}, and replays", make)
    first, second = result["repeated"]
    counted, words = result["reference"] or (None, "")
    reference = (counted, words) if counted else None
    return Traced((first, second), result["linked"], result["layouts"], reference)


# ---- orders ----------------------------------------------------------------------------------------------------------


def _orders(example: Example, merged: Callable[[Path], bytes]) -> tuple[dict[str, Order], str]:
    """Make all orders; return them, and what `hugealign order` printed of that of the fleet."""
    steps, hosts = example.steps, example.steps.directory("hosts")
    result = steps.directory("counts")
    new, old = (counts.parse(_sum(steps, hosts, f"{variant}-*.counts")) for variant in (NEW, OLD))
    (build,) = new
    (of_old,) = old.values()
    stripped = counts.parse(_stripped(example))
    parts = {
        "own": ("the newer release", new),
        LINKED: ("all hosts", counts.parse(merged(hosts))),
        "code": ("the older release", old),
        "names": ("the older release, by name alone", {head: _by_name(mine) for head, mine in old.items()}),
        "addresses": (
            "the older release, by address alone",
            {build: _by_address(of_old)},
        ),
        "stripped": ("the older release, stripped", stripped),
        "exported": (
            "the older release, stripped, by name alone",
            {head: _by_name(mine) for head, mine in stripped.items()},
        ),
    }
    orders, output = {}, ""
    for name, (words, some) in parts.items():
        path = result / f"{name}.counts"
        path.write_bytes(counts.write(some))
        command = ["hugealign", "order", path, "-b", example.program(NEW), *OPTIONS.split(), "--force"]
        steps.directory("orders")
        command += ["-o", example.order(name)]
        if name == LINKED:
            output = steps.shown(steps.output(command))
        report = json.loads(steps.output([*command, "--json"]))["samples"]
        orders[name] = Order(words, report["total"], report["matched"])
    return orders, output


def _sum(steps: Steps, hosts: Path, pattern: str) -> bytes:
    target = steps.directory("counts") / "sum"
    steps.output(["hugealign", "profile", "merge", *sorted(hosts.glob(pattern)), "-o", target])
    return target.read_bytes()


def _stripped(example: Example) -> bytes:
    """Return the counts of the older release's hosts as if its program had been stripped, as Debian ships it."""
    steps, program = example.steps, example.program(OLD)
    bare = steps.directory("stripped") / program.name
    steps.output(["strip", "-o", bare, program])
    target = steps.directory("counts") / "stripped"
    _reduced(steps, [_data(steps, OLD, host) for host in range(HOSTS)], bare, target)
    return target.read_bytes()


def _by_name(mine: Mapping[bytes, int]) -> dict[bytes, int]:
    """Return the functions of a section by their names alone; those without are outside of all that is known."""
    result: dict[bytes, int] = {}
    for key, count in mine.items():
        words = key.split(b"\t")
        if words[0] == b"f":
            counts.add(result, b"f\t\t%b\t%b\t" % (words[2], words[3]) if words[2] else counts.OUTSIDE, count)
        elif words[0] != b"c":
            counts.add(result, key, count)
    return result


def _by_address(mine: Mapping[bytes, int]) -> dict[bytes, int]:
    """Return the functions of a section by their addresses alone."""
    result: dict[bytes, int] = {}
    for key, count in mine.items():
        words = key.split(b"\t")
        counts.add(result, b"f\t%b\t\t\t" % words[1] if words[0] == b"f" else key, count)
    return result
