"""What became of an order: functions gained, lost and moved between windows, and how similar the samples are.  Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hugealign.io.units import printable
from hugealign.orderfile import FILL, Entry, OrderFile
from hugealign.records import Record

_SHOWN = 10
_NAME_SHOWN = 100


class Moved(Record):
    """A function that changed windows; window 0 if a file does not say."""

    old: Entry
    new: Entry

    JSON = "name=new.shown file=new.file? samples=new.samples from=old.window to=new.window"


@dataclass(frozen=True, slots=True)
class Difference:
    """What two order files differ in."""

    gained: Sequence[Entry]
    """Functions that ran only in the new order."""
    lost: Sequence[Entry]
    """Functions that ran only in the old order."""
    moved: Sequence[Moved]
    """Functions in both orders, in different windows."""
    kept: int
    """How many functions are in both."""
    overlap: float | None
    """The share of samples in common, function by function, 0 to 1; None if one of the two has no samples."""

    SCHEMA = "hugealign.order-diff/1"
    JSON = "overlap kept gained lost moved"

    @property
    def same(self) -> bool:
        """Whether there is nothing to report."""
        return not (self.gained or self.lost or self.moved)


def compare(old: OrderFile, new: OrderFile) -> Difference:
    """Return what changed from *old* to *new* among the functions that ran; fillers do not count."""
    before, after = ({e.key: e for e in order.entries if e.kind != FILL} for order in (old, new))
    both = [(before[key], entry) for key, entry in after.items() if key in before]
    totals = [sum(entry.samples for entry in side.values()) for side in (before, after)]
    overlap = None
    if all(totals):
        common = sum(min(a.samples * totals[1], b.samples * totals[0]) for a, b in both)
        overlap = common / (totals[0] * totals[1])
    return Difference(
        _heaviest(entry for key, entry in after.items() if key not in before),
        _heaviest(entry for key, entry in before.items() if key not in after),
        [Moved(a, b) for a, b in both if a.window != b.window],
        len(both),
        overlap,
    )


def _heaviest(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: -entry.samples)


def text(difference: Difference) -> str:
    """Return the difference for people; of many functions, the ones with the most samples."""
    overlap = "--" if difference.overlap is None else f"{int(difference.overlap * 10000) / 100:.2f} %"
    lines = [f"{overlap} of the samples in common; {difference.kept} functions in both"]
    for title, entries in (("gained", difference.gained), ("lost", difference.lost)):
        lines.append(f"{title} {len(entries)}")
        lines += [f"  {_name(entry)} ({entry.samples} samples)" for entry in entries[:_SHOWN]]
        lines += [f"  and {len(entries) - _SHOWN} more"] if len(entries) > _SHOWN else []
    lines.append(f"moved to another window {len(difference.moved)}")
    lines += [f"  {_name(it.new)}: {it.old.window} -> {it.new.window}" for it in difference.moved[:_SHOWN]]
    lines += [f"  and {len(difference.moved) - _SHOWN} more"] if len(difference.moved) > _SHOWN else []
    return "".join(f"{line}\n" for line in lines)


def _name(entry: Entry) -> str:
    name = printable(entry.shown[:_NAME_SHOWN])
    return f"{name} ({printable(entry.file[:_NAME_SHOWN])})" if entry.file else name
