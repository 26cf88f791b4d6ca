"""The servers at work: profiles and orders, what the kernel maps, loads in turn."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from examples.servers.server import VARIANTS, Example, Instance, running, start_anew
from examples.servers.steps import ANY, Steps
from examples.servers.text import WINDOW, Samples, Text, counts, perf_rights, samples
from hugealign import orderfile
from hugealign.measuring.interval import Ratio, paired
from lab.bench.placements import PLACEMENTS

Round = dict[tuple[str, str], dict[str, float]]  # figures by load and variant
#: A server and its client alone make a load average of less: from this on other work shared the processors.
BUSY = 2.0
_PATIENCE = 120  # seconds for which the rounds of a run together wait for the machine to be calm


@contextmanager
def short_directory(steps: Steps, name: str) -> Iterator[Path]:
    """Make a directory whose path is short and of one length: that of a socket has 107 bytes at most."""
    with TemporaryDirectory(prefix=f"hugealign-{name}.", dir="/tmp") as path:
        os.chown(path, steps.directory("home").stat().st_uid, -1)
        yield Path(path)


# ---- profiles and orders ---------------------------------------------------------------------------------------------


def instances(example: Example, variants: Sequence[str], sockets: Path) -> list[Instance]:
    """Return servers, each on a new copy of filled data: those of ``hugealign``, or for an older one its own."""
    steps, result = example.steps, []
    makers = {variant: "hugealign" if variant in VARIANTS else variant for variant in variants}
    for maker in dict.fromkeys(makers.values()):
        item = Instance(example, maker, steps.directory("data") / f"filled-{maker}", sockets / "fill")

        def make(item: Instance = item) -> None:
            example.do(["rm -rf {data}", *example.server.serve["create"]], f"{item.variant}-create", **item.names)
            with running([item]):
                example.do(example.server.serve["fill"], f"{item.variant}-fill", **item.names)

        steps.step(item.data.name, f"{maker}: an empty server, and the tables of the loads", make)
    for variant, maker in makers.items():
        item = Instance(example, variant, steps.directory("data") / variant, sockets / variant)
        steps.output(["rm", "-rf", item.data])
        steps.output(["cp", "-a", item.data.with_name(f"filled-{maker}"), item.data])
        result.append(item)
    return result


def record(one: Instance, name: str, seed: int, words: Sequence[str] = ()) -> list[int]:
    """Record all processes into profiles *name* while the training loads run; return where samples fall in the text."""
    steps, result = one.example.steps, []
    for number, load in enumerate(one.example.server.serve["training"]):
        output = steps.directory("profiles") / f"{name}-{number}.data"
        steps.output(["rm", "-f", output])
        perf = ["perf", "record", "-N", "-e", "cpu-clock:u", "-F", "999", *words, "-p", one.processes(), "-o", output]
        steps.run([*perf, "--", *one.words(load, seed=seed)], log=f"{output.stem}-record", rights=perf_rights())
        result += samples(steps, output, one.text())
    return result


def profile(example: Example, variant: str, sockets: Path) -> None:
    """Record the training loads on *variant*, unless that was done."""

    def make() -> None:
        with running(instances(example, (variant,), sockets)) as (item,):
            record(item, variant, 11, example.server.stacks.split())

    example.steps.step(f"{variant}-record", f"{variant}: perf record, {example.server.trained}", make)


@dataclass(frozen=True, slots=True)
class Order:
    """What `hugealign order` said: its *table*; of its profile's samples, the *matched* per cent; *hot* functions."""

    table: str
    matched: float
    hot: int
    samples: Mapping[str, int]  # of the functions that are there because they ran


def make_order(example: Example, source: str, name: str) -> Order:
    """Make the order *name* from the profiles of *source* for the program that ``hugealign`` is."""
    steps, path = example.steps, example.order(name)
    profiles = sorted((steps.build / "profiles").glob(f"{source}-[0-9]*.data"))
    options = example.server.orders.get(name, "").split()
    command = ["hugealign", "order", *profiles, "-b", example.program("hugealign"), *options, "-o", path]

    def make() -> dict[str, Any]:
        return {"table": steps.shown(steps.output(command)), "report": steps.output([*command, "--json"])}

    result = steps.step(f"{name}-order", f"{name}: hugealign order {' '.join(options)}".rstrip(), make)
    report = json.loads(result["report"])
    ran: dict[str, int] = {}
    for entry in orderfile.load(str(path)).entries:
        if entry.kind != orderfile.FILL:
            ran[entry.name] = ran.get(entry.name, 0) + entry.samples
            for other in entry.aliases:
                ran.setdefault(other, 0)
    share = 100 * report["samples"]["matched"] / max(1, report["samples"]["total"])
    return Order(result["table"], share, report["functions"]["hot"], ran)


def covered(fresh: Order, order: Order) -> float:
    """Return the per cent of the *fresh* profile's samples that fall in functions which ran for *order*."""
    held = sum(count for name, count in fresh.samples.items() if name in order.samples)
    return 100 * held / max(1, sum(fresh.samples.values()))


# ---- loads in turn ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Live:
    """What was measured of the running servers, by variant."""

    wanted: Mapping[str, int]  # windows that are to be huge
    text: dict[str, Text] = field(default_factory=dict)  # where the fewest bytes were huge
    ps: dict[str, str] = field(default_factory=dict)
    samples: dict[str, Samples] = field(default_factory=dict)  # of a profile recorded on the server itself
    rounds: list[Round] = field(default_factory=list)
    load: list[float] = field(default_factory=list)  # average when a round began, or when it ended if that is more
    counters: dict[str, Mapping[str, int] | None] = field(default_factory=dict)

    def calm(self) -> list[Round]:
        """Return the rounds that count: in which the machine did no other work."""
        return [result for result, load in zip(self.rounds, self.load, strict=True) if load < BUSY]

    def claimed(self) -> bool:
        """Tell whether changes may be claimed: at least half of the rounds count, and two."""
        return len(self.calm()) >= max(2, len(self.rounds) / 2)

    def changes(self) -> Iterator[tuple[str, str, str, Sequence[float], Ratio | None]]:
        """Yield load, figure, variant, the values of the rounds that count, and the ratio to ``plain``.

        The intervals hold all ratios together with 95 %: each has 5 % divided by their number (Bonferroni).
        """
        rounds = self.calm()
        names = {load: result for (load, variant), result in self.rounds[0].items() if variant == "plain"}
        figures = [(load, name) for load, result in names.items() for name in result]
        comparisons = len(figures) * (len(VARIANTS) - 1)
        for load, name in figures:
            values = {variant: [result[load, variant][name] for result in rounds] for variant in VARIANTS}
            for variant, mine in values.items():
                judged = variant != "plain" and self.claimed()
                yield load, name, variant, mine, paired(values["plain"], mine, comparisons) if judged else None


def interleaved(names: Sequence[str], rounds: int) -> list[list[str]]:
    """Return the order of each round: rotated and turned round, so that none is always first, or after the same."""
    return [
        [*names[at % len(names) :], *names[: at % len(names)]][:: 1 if at // len(names) % 2 == 0 else -1]
        for at in range(rounds)
    ]


def live(example: Example, sockets: Path) -> Live:
    """Run all servers at once; ask the kernel, record, measure in turn."""
    steps = example.steps
    result = Live({variant: example.wanted(variant) for variant in VARIANTS})
    with running(instances(example, VARIANTS, sockets)) as servers:
        look(result, servers, 0)
        for item in servers[1:]:
            printed = steps.output(["hugealign", "ps", item.pid], accept=ANY)
            result.ps[item.variant] = steps.shown(printed)
            print(printed, end="", flush=True)
            steps.say(f"{item.variant}: a new profile")
            result.samples[item.variant] = Samples(sorted(record(item, f"{item.variant}-new", 12)))
        end = time.monotonic() + _PATIENCE
        for number, names in enumerate(interleaved(VARIANTS, example.rounds), 1):
            while (load := os.getloadavg()[0]) >= BUSY and time.monotonic() < end:
                time.sleep(1)
            steps.say(f"round {number} of {example.rounds}: {', '.join(names)}; load average {load:.1f}")
            start_anew(servers, PLACEMENTS[number % len(PLACEMENTS)])
            look(result, servers, number)
            by_name = {item.variant: item for item in servers}
            turns = [(name, by_name[variant]) for name in example.server.loads for variant in names]
            seed = 1000 + number
            result.rounds.append({(name, item.variant): item.work(name, example.seconds, seed) for name, item in turns})
            result.load.append(max(load, os.getloadavg()[0]))
        for item in servers:
            result.counters[item.variant] = counters(item)
    return result


def look(found: Live, servers: Sequence[Instance], seed: int) -> None:
    """Let all work for a second, which does not count; promise that as much of their text is huge as is to be."""
    for item in servers:
        item.work(next(iter(item.example.server.loads)), 1, 1 + seed)
        text, wanted = item.text(), found.wanted[item.variant] * WINDOW
        words = f"{item.variant}: the kernel maps {text} with PMDs, not {wanted >> 10} KiB"
        item.example.steps.promise(text.huge >= wanted, words)
        found.text[item.variant] = min(found.text.get(item.variant, text), text, key=lambda seen: seen.huge)


def counters(one: Instance) -> Mapping[str, int] | None:
    """Return instructions and iTLB misses while the first load runs, or None if nothing here counts them."""
    steps = one.example.steps
    out = steps.directory("results") / f"{one.variant}.counters"
    words = ["perf", "stat", "-x,", "-e", "instructions:u,iTLB-load-misses:u", "-o", out, "-p", one.processes(), "--"]
    load = one.load(next(iter(one.example.server.loads)), one.example.seconds, 1)
    steps.run([*words, *load], log="counters", rights=perf_rights())
    return counts(out.read_text(errors="replace"))
