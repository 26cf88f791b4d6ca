"""The measurements: profiles and orders, the running servers, traces."""

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import reference
import tracing
from pgbuild import BUILT, COUNTING_PACKAGES, STALE, Example, huge_windows, warm
from pgreport import Fit
from pgserver import WINDOW, Samples, Server, Text, recorded, running
from pgtrace import Tracer
from steps import ANY, interleaved

TRANSACTIONS_RECORDED = 40_000
SECONDS_BEFORE, SECONDS_MEASURED = 1, 2
ROUNDS_TRACED = 120
MIXES = {"select only": ("-S",), "TPC-B-like": ("-b", "tpcb-like")}


def server(example: Example, variant: str, sockets: Path) -> Server:
    """Return the server of *variant*, not yet started."""
    data = example.steps.directory("data") / variant
    return Server(example.steps, variant, example.prefix(variant), data, sockets / variant, f"{variant}-server")


def profile_of(example: Example, variant: str) -> Path:
    """Return where the profile of *variant* is."""
    return example.build / "profiles" / f"{variant}.data"


def record(example: Example, variant: str, sockets: Path) -> None:
    """Record pgbench's two mixes on *variant*, unless that was done."""
    steps, name, words = example.steps, f"{variant}-record", f"{variant}: perf record, pgbench"
    if (seconds := steps.done(name)) is not None:
        steps.say(f"{words}: done before ({seconds} s)")
        return
    steps.say(f"{words} …")
    start = time.monotonic()
    profile = profile_of(example, variant)
    client = example.program("plain", "pgbench")
    with running(server(example, variant, sockets)) as found:
        found.fill(client)
        found.record(client, profile, TRANSACTIONS_RECORDED, stacks=True)
    steps.stamp(name, start)


def make_order(example: Example, variant: str, name: str, *words: str) -> None:
    """Make the order *name* from the profile of *variant* for the program that ``hugealign`` is; keep both reports."""
    steps = example.steps
    command = ["hugealign", "order", profile_of(example, variant), "-b", example.program("hugealign"), *words]
    steps.once(f"{name}-order", f"{name}: hugealign order", [*command, "-o", example.order(name)])
    report = steps.directory("results") / f"{name}-order.json"
    if not report.exists():
        report.write_text(steps.output([*command, "--format", "json"]))


def fit(example: Example, name: str, version: str) -> Fit:
    """Return how the order *name* fits: against the program, and against the samples of the fresh order."""
    report = json.loads((example.build / "results" / f"{name}-order.json").read_text())
    fresh = samples_by_name(example.order("ordered"))
    named = samples_by_name(example.order(name))
    samples = report["samples"]
    return Fit(
        version,
        100 * samples["matched"] / max(1, samples["total"]),
        report["functions"]["hot"],
        100 * sum(count for key, count in fresh.items() if key in named) / max(1, sum(fresh.values())),
    )


def samples_by_name(order: Path) -> dict[str, int]:
    """Return the samples of the functions in an order file that are there because they ran."""
    found: dict[str, int] = {}
    for line in order.read_text().splitlines():
        name, *fields = line.split("\t")
        if name and not name.startswith("#") and "kind=fill" not in fields:
            count = next((int(field[8:]) for field in fields if field.startswith("samples=")), 0)
            found[name] = found.get(name, 0) + count
    return found


@dataclasses.dataclass(slots=True)
class Live:
    """What was measured of the running servers, by variant."""

    text: dict[str, Text]
    ps: dict[str, str]
    samples: dict[str, Samples]  # of a profile recorded on the server itself
    rates: dict[str, dict[str, list[float]]]  # transactions per second, by mix and variant
    counters: dict[str, dict[str, int] | None]
    load: float  # highest load average while pgbench ran; its servers and itself make 1 of it


def started_anew(servers: Mapping[str, Server]) -> dict[str, Server]:
    """Stop all, and start each on the data of the next.

    Where memory and files happen to lie can make more of a difference than what is compared (Mytkowicz et al.,
    "Producing wrong data without doing anything obviously wrong!", ASPLOS 2009); so none keeps its place.
    """
    for one in servers.values():
        one.stop()
    data = [one.data for one in servers.values()]
    found = {
        name: dataclasses.replace(one, data=of_next)
        for (name, one), of_next in zip(servers.items(), [*data[1:], data[0]], strict=True)
    }
    for one in found.values():
        one.start()
    return found


def prove_huge(example: Example, variant: str, text: Text) -> None:
    """Promise that as many bytes of the *text* are huge as the build of *variant* asks for."""
    wanted = huge_windows(example, variant) * WINDOW
    example.steps.promise(text.huge >= wanted, f"{variant}: the kernel maps {text} with PMDs, not {wanted >> 10} KiB")


def live(example: Example, sockets: Path, rounds: int) -> Live:
    """Run all variants at once; ask the kernel, record, measure in turn."""
    steps = example.steps
    found = Live({}, {}, {}, {mix: {variant: [] for variant in BUILT} for mix in MIXES}, {}, 0.0)
    client = example.program("plain", "pgbench")
    with contextlib.ExitStack() as stack:
        servers: dict[str, Server] = {}
        for variant in BUILT:
            if variant != "plain":
                warm(example, variant)
            steps.say(f"{variant}: initdb, start, pgbench -i")
            servers[variant] = stack.enter_context(running(server(example, variant, sockets)))
            servers[variant].fill(client)
        for variant, one in servers.items():
            found.text[variant] = one.text()
            if variant == "plain":
                continue
            steps.run(["hugealign", "ps", one.postmaster], log=f"{variant}-ps", accept=ANY)
            found.ps[variant] = steps.log(f"{variant}-ps").read_text(errors="replace")
            print(found.ps[variant], end="", flush=True)
            prove_huge(example, variant, found.text[variant])
        for variant in ("hugealign", "ordered", "leading"):
            steps.say(f"{variant}: a new profile")
            profile = steps.directory("profiles") / f"{variant}-new.data"
            text = servers[variant].record(client, profile, TRANSACTIONS_RECORDED, stacks=False)
            found.samples[variant] = recorded(steps, profile, text)
        for number, names in enumerate(interleaved(BUILT, rounds), 1):
            steps.say(f"pgbench, round {number} of {rounds}")
            found.load = max(found.load, os.getloadavg()[0])
            # `running` stops whatever runs on the data that it made, so that these need no care of their own.
            servers = started_anew(servers)
            for variant, one in servers.items():
                one.transactions(client, MIXES["select only"], SECONDS_BEFORE)
                if variant != "plain":
                    prove_huge(example, variant, one.text())
            for mix, words in MIXES.items():
                for variant in names:
                    found.rates[mix][variant].append(servers[variant].transactions(client, words, SECONDS_MEASURED))
        for variant, one in servers.items():
            found.counters[variant] = one.counters(client, SECONDS_MEASURED)
            if found.counters[variant] is None:
                break  # this machine does not count them
    return found


@dataclasses.dataclass(slots=True)
class Traced:
    """What traces of the fixed job gave."""

    simulated: list[dict[str, Any]]  # the same job on ``hugealign``, twice
    linked: dict[str, Any]  # on ``leading``, as it is
    layouts: dict[str, str]  # of this run, what simulate calls them by name
    reference: dict[str, Any] | None  # under the reference run's orders: the counts, and words about them


def traces(example: Example, sockets: Path, version: str) -> Traced:
    """Trace the job twice and replay it, in the reference's orders too; trace the server really linked so.

    The second time is on data made anew, and on one processor only: it is to come out the same all the same.
    """
    steps = example.steps
    kept = reference.read(Path(__file__).parent / "reference", example.build / "orders")
    work = steps.directory("traces")
    tracer = Tracer(steps, sockets)
    tracer.prepare(ROUNDS_TRACED, 1)
    layouts = {"all-4k": "all-4k", "original": "original"}
    layouts |= {
        name: f"order:{example.order(name)}" for name in ("ordered", "leading", *STALE) if example.order(name).exists()
    }
    replayed = [*layouts.values(), *(f"order:{path}" for path in (kept.orders.values() if kept else ()))]
    found = []
    for number, processor in (1, None), (2, tracing.last_processor()):
        steps.say(f"hugealign trace postgres --single, run {number} of 2")
        output = work / f"hugealign-{number}.trace"
        tracer.fill(example.prefix("hugealign"))
        tracer.trace(example.prefix("hugealign"), output, processor)
        steps.say("hugealign simulate")
        found.append(tracer.simulate(example.program("hugealign"), output, replayed))
    steps.say("hugealign trace postgres --single, of the server linked for one window")
    tracer.trace(example.prefix("leading"), work / "leading.trace")
    linked = tracer.simulate(example.program("leading"), work / "leading.trace", ["original"])
    told = reference.check(
        steps,
        kept,
        found[0],
        {name: example.order(name) for name in ("ordered", "leading")},
        reference.versions(steps, COUNTING_PACKAGES) | {"source": version},
    )
    return Traced(found, linked, layouts, told)
