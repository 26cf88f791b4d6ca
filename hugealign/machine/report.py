"""The plan for the whole machine, and what is in force: lines for people, and JSON.  Pure."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from hugealign.diagnosis import catalogue, render
from hugealign.diagnosis.documents import Failed
from hugealign.diagnosis.values import Diagnosis
from hugealign.io.units import counted, format_size, printable
from hugealign.machine.machine import MachineNow, Outcome
from hugealign.machine.plan import BOOT, CONTAINER_STARTS, COPIES, HOOK, IN_PLACE, NOW, RESTART, Part
from hugealign.machine.state import Held
from hugealign.system.saving import Saving

_HOW = {IN_PLACE: "in place", COPIES: "copies", HOOK: "hook"}
_WHEN = {
    NOW: "at the next start",
    RESTART: "when it restarts",
    CONTAINER_STARTS: "when the container starts",
    BOOT: "after a boot",
}
#: The name of a layer of an image.
_LAYER = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
_HEAD = ("WHAT", "HOW", "WINDOWS", "MEMORY", "CPU", "SAVES", "FROM")
_LEFT_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Report:
    """What `hugealign enable --all` made huge, or would; times are in seconds since 1970, shares parts of 1."""

    max: int
    """The most memory for all parts."""
    outcome: Outcome | None
    errors: Sequence[Failed] = ()

    SCHEMA = "hugealign.machine-plan/1"
    JSON = "max held take dropped left failed errors"

    @property
    def held(self) -> Sequence[Held]:
        """What is in force; with --dry-run, what stays so."""
        return self.outcome.state.held if self.outcome else ()

    @property
    def take(self) -> Sequence[Part]:
        """What is new, or would be."""
        return self.outcome.plan.take if self.outcome else ()

    @property
    def dropped(self) -> Sequence[str]:
        """What is no longer in force."""
        return [part.name for part in self.outcome.dropped] if self.outcome else ()

    @property
    def left(self) -> Sequence[Diagnosis]:
        """Why other text in use stays as it is."""
        return self.outcome.plan.left if self.outcome else ()

    @property
    def failed(self) -> Sequence[Diagnosis]:
        """Why parts could not be made huge."""
        return self.outcome.failed if self.outcome else ()


def lines(outcome: Outcome, bound: int, *, every: bool = False) -> list[str]:
    """Return the plan as a table, and why the rest is left: the first reasons, or *every* one."""
    held, new = outcome.state.held, outcome.plan.take
    before = [one.part for one in held if one.part not in new]
    parts = [*before, *new]
    saved = sum(part.saved for part in parts)
    memory = format_size(sum(part.memory for part in parts))
    summary = (
        f"{counted(len(parts), 'part')}, {memory} of at most {format_size(bound)}; "
        f"{100 * saved:.2f} % of one processor saved, by the model"
    )
    result = [summary]
    if parts:
        rows = [_HEAD, *(_row(part, known=part in before) for part in parts)]
        widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
        result += ["  ".join(_cell(row[at], widths[at], at) for at in range(len(_HEAD))).rstrip() for row in rows]
    result += [f"{_name(part.name)}: dropped" for part in outcome.dropped]
    result += [_line(diagnosis) for diagnosis in outcome.failed]
    left = outcome.plan.left
    if left:
        shown = left if every else left[:_LEFT_SHOWN]
        result += ["", "left as they are:", *(f"  {_line(diagnosis)}" for diagnosis in shown)]
        if len(shown) < len(left):
            result.append(f"  and {len(left) - len(shown)} more (-v)")
    return result


def _line(diagnosis: Diagnosis) -> str:
    return f"{_name(diagnosis.subject)}: {render.text(diagnosis)}"


def _name(name: str) -> str:
    """Return the *name* of a part for people: of a layer, only the beginning."""
    return _LAYER.sub(r"\1", printable(name))


def _row(part: Part, *, known: bool) -> tuple[str, ...]:
    when = "in force" if known else _WHEN[part.when]
    saves = percent(part.saving)
    cpu = f"{100 * part.share:.1f} %"
    return _name(part.name), _HOW[part.how], str(part.windows), format_size(part.memory), cpu, saves, when


def _cell(text: str, width: int, at: int) -> str:
    return text.rjust(width) if 2 <= at <= 4 else text.ljust(width)


def percent(saving: Saving) -> str:
    """Return a saving in per cent, with its interval."""
    return f"{100 * saving.value:.1f} % ({100 * saving.low:.1f} to {100 * saving.high:.1f})"


def status_lines(there: MachineNow) -> list[str]:
    """Return the parts that are in force, and how the last look ended."""
    state = there.state
    result = [
        f"  {_name(one.part.name)}: {_HOW[one.part.how]}, {_windows(one.part, there)}, "
        f"{format_size(one.part.memory)}, saves {percent(one.part.saving)} by the model, since {_day(one.since)}"
        for one in state.held
    ]
    if state.looked:
        how = f"failed: {_title(state.failure)}" if state.failure else "well"
        result.append(
            f"  last look: {_day(state.looked)} {time.strftime('%H:%M', time.localtime(state.looked))}, {how}"
        )
    return result


def _title(code: str) -> str:
    return f"{catalogue.row(code).title} [{code}]" if code in catalogue.codes() else printable(code)


def _windows(part: Part, there: MachineNow) -> str:
    windows = counted(part.windows, "window")
    return f"{there.huge[part.name]} of {windows} huge" if part.name in there.huge else windows


def _day(seconds: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(seconds))
