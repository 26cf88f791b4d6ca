"""How the examples trace a server so that it runs the same blocks each time, and replay what it ran."""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steps import Steps


def bare(home: Path) -> list[object]:
    """Return what comes before a command that is to have the same environment each time."""
    return ["env", "-i", f"HOME={home}", "PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"]


def traced(
    home: Path, preloaded: Path, output: Path, processor: int | None, limits: Sequence[object] = ()
) -> list[object]:
    """Return what comes before a command whose trace is to be in *output*.

    It has the library *preloaded*, which is for it, not for QEMU, *limits* that a command sets, and no random
    addresses, and runs on one *processor* if that is given.
    """
    words = [*bare(home), f"QEMU_SET_ENV=LD_PRELOAD={preloaded}", *limits, "setarch", "-R"]
    words += () if processor is None else ("taskset", "-c", processor)
    return [*words, shutil.which("hugealign") or "hugealign", "trace", "-v", "-o", output, "--"]


def replayed(
    steps: Steps, trace: Path, program: Path, layouts: Sequence[str], cpus: Sequence[str], words: Sequence[str]
) -> dict[str, Any]:
    """Return what ``hugealign simulate`` with *words* says of *trace*, of *program*, under *layouts* on *cpus*."""
    asked = [word for layout in layouts for word in ("--layout", layout)]
    asked += [word for cpu in cpus for word in ("--cpu", cpu)]
    command = ["hugealign", "simulate", trace, *asked, "--binary", program, *words, "--format", "json"]
    found: dict[str, Any] = json.loads(steps.output(command))
    return found


def last_processor() -> int:
    """Return a processor that we may run on."""
    return max(os.sched_getaffinity(0))
