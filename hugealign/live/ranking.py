"""Which windows of a process shall be huge, by where it runs, and never more than so many.  Pure."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass, field

from hugealign.process.pagemap import State
from hugealign.process.smaps import Mapping

#: A window that is not huge has to be hotter by this much than one that is, to take its place: each change costs.
_BETTER = 1.25


@dataclass(frozen=True, slots=True)
class Window:
    """A window of executable memory: *heat* are the samples in it, *ours* whether `adapt` may split it again.

    *part* is the path of its file, empty for code without one.
    """

    start: int
    part: str
    state: State
    heat: int
    ours: bool

    @property
    def huge(self) -> bool:
        """Whether it is."""
        return self.state == State.HUGE


@dataclass(frozen=True, slots=True)
class AdaptPlan:
    """What to do, in this order: *split* these windows, then *collapse* those."""

    split: tuple[Window, ...] = ()
    collapse: tuple[Window, ...] = field(default=())


def windows(mappings: Sequence[Mapping], addresses: "Counter[int]", page_size: int) -> list[Window]:
    """Return the whole windows of *mappings*, the hottest first; *addresses* are samples.

    A window of a file is another process's as well, so that only those of no file are ours to split.
    """
    found = []
    for mapping in mappings:
        first = mapping.first_window(page_size)
        for at, state in enumerate(mapping.windows(page_size) or ()):
            found.append((first + at * page_size, mapping, state))
    found.sort(key=lambda item: item[0])
    starts = [start for start, _, _ in found]
    heat: Counter[int] = Counter()
    for address, count in addresses.items():
        at = bisect_right(starts, address) - 1
        if at >= 0 and address < starts[at] + page_size:
            heat[starts[at]] += count
    made = [
        Window(start, "" if m.without_file else m.path, state, heat[start], ours=m.without_file)
        for start, m, state in found
    ]
    return sorted(made, key=lambda window: (-window.heat, window.start))


def plan(found: Sequence[Window], most: int, refused: frozenset[int] = frozenset()) -> AdaptPlan:
    """Return what makes the hottest of the windows *found* huge, so that at most *most* are.

    Those at the addresses *refused* cannot be.  What is huge and not ours to split stays, and counts.  Code without a
    file that was not sampled comes last: while there is room it may as well be huge, for nobody else makes it so.
    """
    fixed = sum(window.huge and not window.ours for window in found)
    room = max(0, most - fixed)
    ours = [window for window in found if window.huge and window.ours]
    touched = [w for w in found if not w.huge and w.state != State.UNTOUCHED and w.start not in refused]
    wanted = [w for w in touched if w.heat or w.ours]
    ranked = sorted([*ours, *wanted], key=lambda w: (-w.heat * (_BETTER if w.huge else 1.0), not w.huge, w.start))
    chosen = {window.start for window in ranked[:room]}
    collapse = tuple(window for window in wanted if window.start in chosen)
    split = tuple(window for window in ours if window.start not in chosen)
    return AdaptPlan(split, collapse)


def share(found: Sequence[Window], total: int, states: MappingOf[int, State] | None = None) -> float:
    """Return the share of the *total* samples that are in huge windows; *states* are later ones than those *found*."""
    huge = sum(w.heat for w in found if (states or {}).get(w.start, w.state) == State.HUGE)
    return huge / total if total else 0.0
