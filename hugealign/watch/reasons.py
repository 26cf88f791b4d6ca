"""Why windows of a process are small, and what kind of thing helps: one table for `ps`, `top` and `adapt`.  Pure.

`hugealign.watch.observing` looks up what the rows judge by, `hugealign.watch.remedies` finds the command for a kind.
"""

from collections.abc import Callable
from collections.abc import Mapping as MappingOf
from types import MappingProxyType
from typing import Any

from hugealign.diagnosis.values import Diagnosis
from hugealign.process.pagemap import State
from hugealign.process.smaps import Mapping
from hugealign.records import Record
from hugealign.watch.runtimes import Runtime
from hugealign.watch.staged import CURRENT

#: The path of a file that never had a name (mm/memfd.c), as `hugealign run --how=copy` makes one.
_IN_MEMORY = "/memfd:"
NOTHING: MappingOf[int, Any] = MappingProxyType({})

#: Kinds of remedies: let the program have huge pages; start it again; `hugealign adapt`; an option of the runtime; what
#: the file allows, a copy or another build.
ALLOW, RESTART, ADAPT, OPTION, FILE = "allow", "restart", "adapt", "option", "file"


class Observed(Record):
    """What was looked up about a process besides its mappings."""

    exe: str
    """Its program."""
    thp_disabled: bool = False
    cached: MappingOf[int, bool] = NOTHING
    """By the address of a window, whether the page cache has it huge."""
    wanted: MappingOf[int, int] = NOTHING
    """By the address of a mapping, how many leading windows the build of its file requests, if not all."""
    staged: MappingOf[int, str] = NOTHING
    """By the address of a mapping of a staged copy, its state (`hugealign.watch.staged`)."""
    runtime: Runtime | None = None
    """What compiles the code without a file."""


class SmallWindow(Record):
    """A window that is not huge."""

    mapping: Mapping
    state: State
    cached: bool | None
    """Whether the page cache has it huge; None if that is not known."""
    observed: Observed

    @property
    def of_program(self) -> bool:
        """Whether it is the program's own text, from its file or in its place."""
        return self.mapping.path == self.observed.exe or self.mapping.own


class Reason(Record):
    """One row: windows are small by *code* where *holds*, unless a row before it does; *remedy* is a kind, if any."""

    code: str
    holds: Callable[[SmallWindow], bool]
    remedy: str = ""


#: The most certain one first.
REASONS = (
    Reason("process.thp-disabled", lambda it: it.observed.thp_disabled, ALLOW),
    Reason("program.small-pages", lambda it: it.mapping.no_huge),
    Reason("process.text-written", lambda it: it.state == State.WRITTEN, RESTART),
    Reason("copy.in-memory", lambda it: it.mapping.path.startswith(_IN_MEMORY) and it.of_program, RESTART),
    Reason("process.not-touched", lambda it: it.state == State.UNTOUCHED and it.mapping.without_file),
    Reason("process.text-copied", lambda it: it.mapping.own, ADAPT),
    Reason("runtime.small-pages", lambda it: it.mapping.without_file, ADAPT),
    Reason("copy.outdated", lambda it: it.observed.staged.get(it.mapping.start, CURRENT) != CURRENT, RESTART),
    Reason("file.replaced", lambda it: it.mapping.deleted and not it.cached, RESTART),
    Reason("process.not-touched", lambda it: it.state == State.UNTOUCHED and it.cached is not False),
    Reason("process.mapped-small", lambda it: bool(it.cached), RESTART),
    Reason("cache.small-pages", lambda it: True, FILE),  # noqa: ARG005 - the page cache has it small, or none
)
#: The kinds of remedies by code; without a window there is nothing to observe.
KINDS = {reason.code: reason.remedy for reason in REASONS} | {"text.no-window": FILE, "runtime.no-window": OPTION}


def why_small(window: SmallWindow) -> Diagnosis:
    """Return why the *window* is not huge, by the first row that holds."""
    code = next(reason.code for reason in REASONS if reason.holds(window))
    mapping, runtime = window.mapping, window.observed.runtime
    subject = window.observed.exe if window.of_program or mapping.without_file else mapping.path
    facts: dict[str, int | str] = {}
    if code == "runtime.small-pages":
        facts = {"runtime": runtime.name, "option": runtime.option} if runtime else {"runtime": "", "option": ""}
    return Diagnosis(code, subject, facts)
