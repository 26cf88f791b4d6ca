"""Traces of a fixed job, the same blocks each time, and what replays of them count."""

import importlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.servers import debian, reference
from examples.servers.server import Example

Replay = dict[str, Any]  # what `hugealign simulate --json` says


@dataclass(frozen=True, slots=True)
class Traced:
    """What traces gave: *repeated*, two of ``hugealign``; *linked*, of the servers really linked in an order."""

    repeated: tuple[Replay, Replay]
    linked: Mapping[str, Replay]
    layouts: Mapping[str, str]  # of this run, what simulate calls them by name
    reference: tuple[reference.Counts, str] | None  # under the reference run's orders, and words about them


def trace(example: Example, home: Path, orders: Mapping[str, Path]) -> Traced:
    """Trace the job twice and replay it in *orders*, in the reference's too; trace the servers really linked so.

    *home* is a directory whose path is as long each time.  The second time the job is on data made anew, and on one
    processor only: its trace must be the same all the same.
    """
    steps, server, part = example.steps, example.server, example.server.trace
    kept = reference.read(server.beside / "reference", steps.directory("orders"))
    preloaded = home / Path(part["preloaded"]).with_suffix(".so")
    compiler = ["gcc", "-O1", "-shared", "-fPIC", "-x", "c", "-", "-o", preloaded]
    steps.run(compiler, log="preloaded", stdin=server.beside / part["preloaded"])
    # The same environment each time.
    bare = f"env -i HOME={home} PATH=/usr/bin:/bin LC_ALL=C TZ=UTC"
    names: dict[str, Any] = {"home": home, "bare": bare, "preloaded": preloaded}
    example.do(part["prepare"], "prepare", **names)
    (home / "tables.sql").write_bytes((server.beside / "tables.sql").read_bytes())
    job = importlib.import_module(f"examples.{server.name}.job").job()
    (home / "job.sql").write_text("".join(job), encoding="ascii")
    layouts = {"original": "original", **{name: f"order:{path}" for name, path in orders.items()}}
    replayed = [*layouts.values(), *(f"order:{path}" for path in (kept.orders.values() if kept else ()))]

    def recorded(name: str, processor: int | None, layouts: Sequence[str]) -> Replay:
        variant, output = name.removesuffix("-2"), steps.directory("traces") / f"{name}.trace"
        steps.say(f"{name}: hugealign trace, {part['job']}")
        again = ["rm -rf {home}/data {home}/filled", *part["bring"], *part["fill"]]
        example.do(again, f"{name}-data", cwd=home, variant="hugealign", **names)
        example.do([*part["bring"], "cp -a {home}/filled {home}/data"], f"{name}-data", variant=variant, **names)
        # The library is for the server, not for QEMU; addresses are not random.
        pinned = "" if processor is None else f"taskset -c {processor}"
        before = f"{bare} QEMU_SET_ENV=LD_PRELOAD={preloaded} {part['limits']} setarch -R {pinned}"
        words = [*before.split(), shutil.which("hugealign"), "trace", "-v", "-o", output, "--"]
        words += example.words(part["start"], **names)
        steps.run(words, log=f"{name}-trace", cwd=home, stdin=home / "job.sql")
        steps.say(f"{name}: hugealign simulate")
        asked = [word for layout in layouts for word in ("--layout", layout)]
        asked += [word for cpu in part["cpus"] for word in ("--cpu", cpu)]
        asked += f"--from {part['begin']} --until {part['end']} --windows 0-{part['windows']} --json".split()
        result = steps.output(["hugealign", "simulate", output, "--binary", example.program(variant), *asked])
        return dict(json.loads(result))

    first = recorded("hugealign", None, replayed)
    second = recorded("hugealign-2", max(os.sched_getaffinity(0)), replayed)
    result = differences(first, second)
    steps.promise(not result, f"two recordings of the same job differ in {len(result)} counts: {result[:1]}")
    linked = {name: recorded(name, None, ["original"]) for name in server.orders}
    versions = debian.versions(server.counting.split()) | {"source": example.version()}
    reported = reference.check(steps, kept, first, {name: orders[name] for name in server.orders}, versions)
    return Traced((first, second), linked, layouts, reported)


def differences(first: Replay, second: Replay) -> list[str]:
    """Return which counts of two recordings of one server differ: blocks, instructions, misses and walks."""
    names = [name for name in ("blocks", "instructions") if first[name] != second[name]]
    rows = [{(row["layout"], row["cpu"], row["windows"]): row for row in result["rows"]} for result in (first, second)]
    for key in rows[0].keys() | rows[1].keys():
        one, two = (result.get(key, {}) for result in rows)
        names += [
            f"{what}, {', '.join(map(str, key))}" for what in ("misses", "walks") if one.get(what) != two.get(what)
        ]
    return sorted(names)


def misses(replay: Replay, layout: str, cpu: str, windows: int) -> int:
    """Return the first-level misses of one layout on one processor with so many huge windows."""
    wanted = (layout, cpu, windows)
    return next(int(row["misses"]) for row in replay["rows"] if (row["layout"], row["cpu"], row["windows"]) == wanted)
