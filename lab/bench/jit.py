"""Code that a runtime compiles, on huge pages: HotSpot and PHP, with the cap of `hugealign adapt` and without one.

Run by ``python -m lab.bench.jit --write docs/measured/jit.md``; as root, some minutes.  Each runs natively, where
`adapt` changes it, and once under QEMU, where the same windows, chosen by heat as `adapt` does, are simulated.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hugealign.process import processes
from hugealign.watch.adapt import AdaptOptions, adapt, undo
from hugealign.watch.parts import CodeKind, split
from hugealign_lab import placement
from hugealign_lab.geometry import named
from hugealign_lab.placement import Keys, Pages
from hugealign_lab.record import record
from hugealign_lab.replay import Replay
from hugealign_lab.tracefile import Trace, open_trace
from tests.live import jit

WINDOW = 2 << 20
CAP = 8  # Skylake's entries for 2 MiB instruction pages
CPUS = ("skylake", "zen3")
ALL = 1 << 16
_WINDOW_BITS = 9  # pages of 4 KiB in a window


@dataclass(frozen=True)
class Workload:
    """A runtime: what writes its program, the words that run it natively and, for *seconds*, under QEMU."""

    name: str
    write: Callable[[Path], None]
    words: tuple[str, ...]
    traced: tuple[str, ...]
    warm_up: float
    seconds: int


_PHP = tuple(
    word
    for option in ("enable_cli=1", "jit=function", "jit_buffer_size=64M", "file_update_protection=0")
    for word in ("-d", f"opcache.{option}")
)
WORKLOADS = (
    Workload(
        "HotSpot (OpenJDK 17)",
        lambda at: jit.java(at, classes=240),
        ("java", "-Xmx1g", "-XX:ReservedCodeCacheSize=240m", "-cp", "{}", "Work"),
        ("java", "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "{}", "Work"),
        200,
        60,
    ),
    Workload(
        "PHP 8.2, JIT",
        lambda at: jit.php(at, 6000),
        ("php", *_PHP, "{}/work.php"),
        ("php", *_PHP, "{}/work.php"),
        15,
        25,
    ),
)


def natively(load: Workload, directory: Path) -> Iterator[tuple[str, float]]:
    """Run it, adapt it with the cap and without one; yield the lines of the table, and the shares of the samples."""
    words = [word.replace("{}", str(directory)) for word in load.words]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as child:
        try:
            time.sleep(load.warm_up)
            seen = processes.read_large(child.pid)
            parts = [part for part in split(seen.exe, seen.mappings) if part.kind == CodeKind.CODE] if seen else []
            size = sum(region.end - region.start for part in parts for m in part.mappings for region in m.pages or ())
            for name, most in (("none", 0), (f"at most {CAP}", CAP), ("no cap", ALL)):
                options = AdaptOptions(windows=most, seconds=4, rate=100)
                (done,) = adapt([str(child.pid)], options) if most else (None,)
                if done is None:
                    (done,) = undo([str(child.pid)])
                slowest = max((change.seconds for change in done.changes), default=0.0)
                share = f"{100 * done.after:.0f} % of {done.samples:,}" if done.samples else "--"
                line = (
                    f"| {load.name} | {size / (1 << 20):.0f} MiB | {name} | {done.huge} of {len(done.windows)} "
                    f"| {share} | {1000 * slowest:.0f} ms |"
                )
                yield line, done.after
        finally:
            child.kill()


def simulated(load: Workload, directory: Path, work: Path) -> Iterator[str]:
    """Trace it, and yield the misses with the hottest windows huge: none, as many as the cap, all."""
    words = [word.replace("{}", str(directory)) for word in (*load.traced, str(load.seconds))]
    path = str(work / "trace")
    record(words, path, 1 << 30)
    trace = open_trace(path)
    original = placement.original(trace, trace.description.program)
    pages = placement.pages(trace, original)
    heat = windows(trace)
    ranked = [window for window, _ in sorted(heat.items(), key=lambda item: (-item[1], item[0]))]
    total = sum(heat.values())
    with Replay(trace) as replay:
        layout = replay.layout(pages)
        machines = []
        for name, most in (("none", 0), (f"the {CAP} hottest", CAP), ("all", len(ranked))):
            variant = replay.variant(layout, keys(pages, set(ranked[:most])))
            share = sum(heat[window] for window in ranked[:most]) / total
            machines += [
                (name, min(most, len(ranked)), share, cpu, replay.machine(variant, named(cpu))) for cpu in CPUS
            ]
        replay.run()
        _, instructions, _, _ = replay.totals()
        for name, count, share, cpu, machine in machines:
            mpki = [number * 1000 / instructions for number in replay.counts(machine)]
            yield f"| {load.name} | {cpu} | {name}: {count} | {100 * share:.0f} % | {mpki[0]:.3f} | {mpki[1]:.4f} |"


def windows(trace: Trace) -> "Counter[int]":
    """Return the instructions in each window of the trace's addresses, of all files and of none."""
    with Replay(trace) as replay:
        replay.run()
        times = replay.executions()
    heat: Counter[int] = Counter()
    for count, (address, file, _, instructions) in zip(times, trace.block_rows(), strict=True):
        if count:
            heat[(address + (file << 48)) >> 21] += count * instructions
    return heat


def keys(found: Pages, huge: set[int]) -> Keys:
    """Return what a TLB looks up when the windows *huge* are; the rest are pages of 4 KiB."""
    dense: dict[tuple[int, bool], int] = {}
    key_of = array("I")
    for page in found.numbers:
        window = page >> _WINDOW_BITS
        key_of.append(dense.setdefault((window, True) if window in huge else (page, False), len(dense)))
    return Keys(key_of, array("Q", (number for number, _ in dense)), bytes(is_huge for _, is_huge in dense))


HEAD = """\
# Compiled code on huge pages, with a cap and without

With at most {cap} huge windows, `adapt` puts {capped} on huge pages; without a cap, {every}.

| runtime | code | huge windows | are huge | samples in them | slowest window |
|---|--:|---|--:|--:|--:|
{native}

*code* is code without a file, as far as it is present. *are huge* counts whole windows of executable memory, libraries
included. The share is that of the samples in windows that are huge afterwards.

## How it was made

Written by `python -m lab.bench.jit --write docs/measured/jit.md`, {when}, on {machine}. The
runtimes have been compiling for some time. Text of files stays small on this kernel's ext4.

## Simulated misses

The same programs run under QEMU, for a shorter time. All code counts, including the runtime and its compiler. The
windows in which the most instructions run are huge, of files or not: none, as many as Skylake has entries ({cap}), all.
*misses* are first-level misses, and *walks* are misses of both levels, per thousand instructions.

<details><summary>Three numbers of huge windows, two processors</summary>

| runtime | processor | huge windows | instructions in them | misses | walks |
|---|---|---|--:|--:|--:|
{simulation}

</details>
"""


def main() -> int:
    """Measure, and write the document."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.jit", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", type=Path, help="the document")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hugealign-jit-") as name:
        native: list[str] = []
        simulation: list[str] = []
        capped: list[str] = []
        every: list[str] = []
        for number, load in enumerate(WORKLOADS):
            directory = Path(name) / str(number)
            directory.mkdir()
            load.write(directory)
            after = []
            for line, share in natively(load, directory):
                native.append(line)
                after.append(f"{100 * share:.0f} %")
                print(line, flush=True)
            capped.append(f"{after[1]} of the samples of {load.name}")
            every.append(after[2])
            for line in simulated(load, directory, Path(name)):
                simulation.append(line)
                print(line, flush=True)
    if args.write:
        when = time.strftime("%Y-%m-%d")
        machine = f"Linux {os.uname().release.partition('-')[0]}, a virtual machine of {os.cpu_count()} processors"
        text = HEAD.format(
            capped=" and ".join(capped),
            every=" and ".join(every),
            native="\n".join(native),
            when=when,
            machine=machine,
            cap=CAP,
            simulation="\n".join(simulation),
        )
        args.write.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
