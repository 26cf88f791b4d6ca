"""What became of an order: functions gained, lost and moved between windows, and how similar the samples are.  Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hugealign.diagnosis import documents
from hugealign.io.units import printable
from hugealign.orderfile import FILL, Entry, OrderFile

SCHEMA = "hugealign.order-diff/1"
_SHOWN = 10
_NAME_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Difference:
    """*gained* and *lost* functions ran in only one of the two; *moved* are (old, new) pairs that changed windows.

    *overlap* is the share of samples that the two have in common, function by function, 0 to 1; None without samples.
    *kept* is the number of functions in both.
    """

    gained: Sequence[Entry]
    lost: Sequence[Entry]
    moved: Sequence[tuple[Entry, Entry]]
    kept: int
    overlap: float | None

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
        [(a, b) for a, b in both if a.window != b.window],
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
    lines += [f"  {_name(new)}: {old.window} -> {new.window}" for old, new in difference.moved[:_SHOWN]]
    lines += [f"  and {len(difference.moved) - _SHOWN} more"] if len(difference.moved) > _SHOWN else []
    return "".join(f"{line}\n" for line in lines)


def to_json(difference: Difference) -> str:
    """Return the JSON document ``hugealign.order-diff/1``, with all functions."""
    body = {
        "overlap": difference.overlap,
        "kept": difference.kept,
        "gained": [_as_json(entry) for entry in difference.gained],
        "lost": [_as_json(entry) for entry in difference.lost],
        "moved": [{**_as_json(new), "from": old.window, "to": new.window} for old, new in difference.moved],
    }
    return documents.to_json(SCHEMA, body)


def _as_json(entry: Entry) -> dict[str, object]:
    return {"name": entry.name or f"@{entry.address:x}", "file": entry.file or None, "samples": entry.samples}


def _name(entry: Entry) -> str:
    name = printable((entry.name or f"@{entry.address:x}")[:_NAME_SHOWN])
    return f"{name} ({printable(entry.file[:_NAME_SHOWN])})" if entry.file else name
