"""Show what was looked at: text for people, JSON for programs.  Pure: returns strings, never prints."""

from collections import Counter

from hugealign.diagnosis import render
from hugealign.doctor.checks import NOTE, OBSTACLE, OK, UNKNOWN, Check
from hugealign.io.units import counted, printable
from hugealign.records import Record
from hugealign.system.textcosts import TextCosts


class Report(Record):
    """The checks of this machine, as JSON."""

    checks: list[Check]

    SCHEMA = "hugealign.doctor/1"
    JSON = "checks summary"

    @property
    def summary(self) -> dict[str, int]:
        """How many checks have each status."""
        count = Counter(check.status for check in self.checks)
        return {status: count[status] for status in (OK, OBSTACLE, NOTE, UNKNOWN)}


_MARKS = {OK: "✓", OBSTACLE: "✗", NOTE: "–", UNKNOWN: "?"}  # noqa: RUF001 - the dash is meant
_MEANINGS = {OK: "ok", OBSTACLE: "error", NOTE: "note", UNKNOWN: "warning"}
_ASCII = {OK: "+", OBSTACLE: "x", NOTE: "-", UNKNOWN: "?"}


def text(checks: list[Check], encoding: str) -> str:
    """Return one line for each check and one for its remedy, in characters that *encoding* has."""
    marks = _MARKS
    try:
        "".join(marks.values()).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        marks, encoding = _ASCII, "ascii"
    width = max(len(_area(check)) for check in checks)
    lines = []
    for check in checks:
        what = check.diagnosis
        subject = f"{printable(what.subject)}: " if what.subject else ""
        mark = render.painted(marks[check.status], _MEANINGS[check.status])
        lines.append(f"{mark} {_area(check).ljust(width)}  {subject}{render.sentence(what)}")
        if what.remedy:
            lines.append(f"  {'':{width}}  {render.remedy(what.remedy, what.facts, colour=True)}")
    obstacles, unseen = (sum(check.status == status for check in checks) for status in (OBSTACLE, UNKNOWN))
    prevents = f"{counted(obstacles, 'problem')} prevent{'s' * (obstacles == 1)}" if obstacles else "nothing prevents"
    lines.append(f"{prevents} huge text" + (f", {unseen} not checked" if unseen else ""))
    return "".join(f"{line}\n" for line in lines).encode(encoding, "replace").decode(encoding)


def curve(costs: TextCosts) -> list[str]:
    """Return a table of the jumps behind the costs, in nanoseconds."""
    lines = ["ns for a jump to the next of   on small pages   on huge ones   more"]
    for point in costs.points:
        pages = counted(point.count, "page")
        lines.append(f"{pages:>28}   {point.small:14.2f}   {point.huge:12.2f}   {point.small - point.huge:+.2f}")
    lines.append("ns for a jump to the next of    in one window   one in each   more")
    for point in costs.windows:
        windows = counted(point.count, "window")
        lines.append(f"{windows:>28}   {point.small:14.2f}   {point.huge:11.2f}   {point.huge - point.small:+.2f}")
    return lines


def _area(check: Check) -> str:
    return check.diagnosis.code.partition(".")[0]
