"""Show what `hugealign measure` found: for people.  Pure functions."""

import shlex
from collections.abc import Iterator

from hugealign.diagnosis import render
from hugealign.io.units import counted, printable
from hugealign.measuring.measure import HUGE, Measurement, Side


def lines(result: Measurement) -> list[str]:
    """Return the comparison with the first side, then what each side did."""
    name = printable(shlex.join(result.command))
    made = [f"{name}: {_comparison(side)}" for side in result.sides if side.of_first]
    width = max(len(printable(side.name)) for side in result.sides)
    made += [f"  {printable(side.name):{width}}  {', '.join(_facts(side))}" for side in result.sides]
    spread = max(side.spread for side in result.sides)
    where = "in place" if result.in_place else f"{result.copies} copies of each file"
    batch = f" of {counted(result.runs, 'run')}" if result.runs > 1 else ""
    rounds = f"{counted(result.rounds, 'round')}{batch}"
    noise = "" if result.in_place else f"; identical copies differ by up to {100 * spread:.1f} %"
    return [*made, f"  {counted(result.files, 'file')}, {where}, {rounds}{noise}"]


def _comparison(side: Side) -> str:
    ratio, wall = side.of_first, side.wall_of_first
    assert ratio is not None  # noqa: S101  # the caller's condition
    on = "on huge pages" if side.name == HUGE else printable(side.name)
    if not ratio.claim:
        return f"{on}: no difference shown: {ratio} of the processor time; on the clock {wall}"
    percent = f"{abs(100 * (1 - ratio.ratio)):.1f} %"
    word = render.painted(f"{percent} less", "ok") if ratio.ratio < 1 else f"{percent} more"
    return f"{on}: {word} processor time: {ratio} of that on small pages; on the clock {wall}"


def _facts(side: Side) -> Iterator[str]:
    yield f"{_time(side.cpu)} of processor time, {_time(side.wall)} on the clock"
    yield f"{side.faults:,.0f} page faults"
    yield f"{side.huge} of {counted(side.windows, 'window')} huge"
    if side.seen is not None:
        yield f"{side.seen} seen in a process"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.2f} ms"
