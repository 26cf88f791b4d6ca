"""Timing two commands side by side, and printing what came out."""

import statistics
import subprocess
import time
from pathlib import Path

from tests.support import environment

HEADER = f"{'milliseconds (medians)':34} {'plain':>9} {'hugealign':>9} {'more':>8} {'ratio':>8} {'of min':>8}"


def milliseconds(argv: list[str], cwd: Path) -> float:
    """Run a command that must succeed and return its wall time."""
    began = time.perf_counter()
    subprocess.run(argv, cwd=cwd, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - began) * 1000


def compare(title: str, plain: list[str], ours: list[str], runs: int, cwd: Path, warm: bool = True) -> None:
    """Run both in turn and print a line; with *warm*, once before it counts."""
    times: tuple[list[float], list[float]] = ([], [])
    if warm:
        milliseconds(plain, cwd)
        milliseconds(ours, cwd)
    for _ in range(runs):
        for argv, kept in zip((plain, ours), times, strict=True):
            kept.append(milliseconds(argv, cwd))
    a, b = (statistics.median(kept) for kept in times)
    low = min(times[1]) / min(times[0])
    print(f"{title:34} {a:9.1f} {b:9.1f} {b - a:+8.1f} {b / a:8.3f} {low:8.3f}", flush=True)


def alone(title: str, argv: list[str], runs: int, cwd: Path) -> None:
    """Time one command and print a line."""
    median = statistics.median(milliseconds(argv, cwd) for _ in range(runs))
    print(f"{title:34} {'--':>9} {median:9.1f}", flush=True)
