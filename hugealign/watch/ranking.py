"""Choose the windows of a process that should be huge, by where it runs and within a limit.  Pure."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass, field

from hugealign.process.pagemap import State
from hugealign.process.smaps import Mapping
from hugealign.system import kernel

#: A small window replaces a huge one only if it is hotter by this factor, since each change costs.
_BETTER = 1.25


@dataclass(frozen=True, slots=True)
class Window:
    """A window of executable memory: *heat* is its number of samples, and *ours* whether `adapt` may split it again.

    *part* is the path of its file, empty for code without one.
    """

    start: int
    part: str
    state: State
    heat: int
    ours: bool

    @property
    def huge(self) -> bool:
        """Whether the window is huge."""
        return self.state == State.HUGE


@dataclass(frozen=True, slots=True)
class AdaptPlan:
    """The changes to make: first *split* these windows, then *collapse* those."""

    split: tuple[Window, ...] = ()
    collapse: tuple[Window, ...] = field(default=())


def windows(mappings: Sequence[Mapping], addresses: "Counter[int]") -> list[Window]:
    """Return the whole windows of *mappings* that have a page or a sample, the hottest first; *addresses* are samples.

    Other processes share the windows of a file, so only windows without a file are ours to split.
    """
    page_size = kernel.huge_page_size()
    heat: Counter[int] = Counter()
    for address, count in addresses.items():
        heat[address - address % page_size] += count
    sampled = sorted(heat)
    made = []
    for m in mappings:
        first = m.first_window
        known, whole = m.touched(), m.whole
        if known is None:
            continue
        # Anybody can map millions of windows and touch none.
        hot = [
            address
            for part in whole
            for address in sampled[
                bisect_left(sampled, first + part.start * page_size) : bisect_left(
                    sampled, first + part.stop * page_size
                )
            ]
        ]
        for start in {first + index * page_size for index in known}.union(hot):
            state = known.get((start - first) // page_size, State.UNTOUCHED)
            made.append(Window(start, "" if m.without_file else m.path, state, heat[start], ours=m.without_file))
    return sorted(made, key=lambda window: (-window.heat, window.start))


def plan(windows: Sequence[Window], most: int, refused: frozenset[int] = frozenset()) -> AdaptPlan:
    """Return the changes that make the hottest of the windows *windows* huge, at most *most* of them.

    The windows at the addresses *refused* cannot be huge.  Huge windows that are not ours to split stay, and count.
    Code without a file that has no samples comes last: it may be huge while there is room, since nothing else makes it
    huge.
    """
    fixed = sum(window.huge and not window.ours for window in windows)
    room = max(0, most - fixed)
    ours = [window for window in windows if window.huge and window.ours]
    touched = [w for w in windows if not w.huge and w.state != State.UNTOUCHED and w.start not in refused]
    wanted = [w for w in touched if w.heat or w.ours]
    ranked = sorted([*ours, *wanted], key=lambda w: (-w.heat * (_BETTER if w.huge else 1.0), not w.huge, w.start))
    chosen = {window.start for window in ranked[:room]}
    collapse = tuple(window for window in wanted if window.start in chosen)
    split = tuple(window for window in ours if window.start not in chosen)
    return AdaptPlan(split, collapse)


def share(windows: Sequence[Window], total: int, states: MappingOf[int, State] | None = None) -> float:
    """Return the share of the *total* samples in huge windows; *states* replaces states in *windows* by later ones."""
    huge = sum(w.heat for w in windows if (states or {}).get(w.start, w.state) == State.HUGE)
    return huge / total if total else 0.0
