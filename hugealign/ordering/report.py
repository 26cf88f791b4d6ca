"""What was made of a profile, for people and as JSON.  Pure: returns text."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hugealign import __version__
from hugealign.orderfile import COLD, FILL, HOT
from hugealign.ordering import choice as choices
from hugealign.ordering.budget import Budget
from hugealign.ordering.choice import Choice
from hugealign.ordering.windows import Plan
from hugealign.profile.match import Matched
from hugealign.units import format_size, printable

SCHEMA = "hugealign.order-report/1"
_NAME_SHOWN = 100  # characters of a name


@dataclass(frozen=True, slots=True)
class Report:
    """All that the report is made from.  *profiles* are (path, format); *source* is where the functions were found.

    *choice* is there if the profile is a trace: samples are instructions then.
    """

    binary: str
    source: str
    profiles: Sequence[tuple[str, str]]
    matched: Matched
    plan: Plan
    budget: Budget
    choice: Choice | None = None

    @property
    def unit(self) -> str:
        """What samples are."""
        return "instructions" if self.choice else "samples"


def text(report: Report) -> str:
    """Return the report for people: what was read, the budget, and a table of windows whose lines add up."""
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    plan, matched = report.plan, report.matched
    for path, form in report.profiles:
        yield f"profile  {printable(path)}: {form}"
    found = _percent(matched.found, matched.total)
    yield f"matched  {found} of {matched.total} {report.unit} in {printable(report.binary)}, {_elsewhere(matched)}"
    for name, count in matched.missing[: 3 if matched.rate < 0.95 else 0]:
        yield f"         not found: {printable(name[:_NAME_SHOWN])} ({_percent(count, matched.total)})"
    budget = report.budget
    kept = f", {budget.reserve} of them kept for others" if budget.entries else ""
    yield f"budget   {_windows(plan.budget)}: {budget.entries} 2 MiB instruction TLB entries ({budget.why}){kept}"
    why = choices.why(report.choice) if report.choice else _why(plan)
    yield f"huge     {_windows(plan.count)} of {format_size(plan.page_size)}: {why}"
    yield ""
    if report.choice:
        yield from choices.lines(report.choice)
        yield ""
    yield "window  page      bytes     filled  functions   samples  cumulative"
    so_far = 0
    for window in plan.windows:
        so_far += window.samples
        yield (
            f"{window.number:6}  {'huge' if window.huge else '4K':4}  {format_size(window.used):>9}  "
            f"{format_size(window.filled):>9}  {window.functions:9}  {_percent(window.samples, matched.found):>8}  "
            f"{_percent(so_far, matched.found):>10}"
        )
    kinds = {kind: sum(placed.kind == kind for placed in plan.placed) for kind in (HOT, COLD, FILL)}
    used, filled = (
        format_size(sum(sizes)) for sizes in ([w.used for w in plan.windows], [w.filled for w in plan.windows])
    )
    yield f"   all        {used:>9}  {filled:>9}  {len(plan.placed):9}  {_percent(so_far, matched.found):>8}"
    yield ""
    hot, cold, fill = (kinds[kind] for kind in (HOT, COLD, FILL))
    yield f"{hot} hot functions, {cold} cold parts, {fill} filled in; others keep the linker's order"


def _elsewhere(matched: Matched) -> str:
    return f"{matched.foreign} in other files" if matched.foreign else "none known to be in other files"


def _why(plan: Plan) -> str:
    if plan.whole:
        return f"all of the text ({_windows(plan.text)}) is within the budget, whatever the order"
    if not plan.budget:
        return "the order is for small pages"
    if plan.needed > plan.budget:
        return f"what ran needs {plan.needed}; one beyond the budget costs more than it saves"
    if plan.count > plan.needed:
        return f"what ran needs {plan.needed}; the rest is filled with what is likely to run"
    return "what ran needs no more"


def _windows(count: int) -> str:
    return f"{count} window{'s' * (count != 1)}"


def _percent(part: int, whole: int) -> str:
    """Return hundredths of a percent, rounded down, so that only all of it is 100 %."""
    if not whole:
        return "--"
    hundredths = part * 10000 // whole
    return f"{hundredths // 100}.{hundredths % 100:02} %"


def to_json(report: Report) -> str:
    """Return the JSON document ``hugealign.order-report/1``, which order-report-1.schema.json describes."""
    plan, matched, budget = report.plan, report.matched, report.budget
    kinds = {kind: sum(placed.kind == kind for placed in plan.placed) for kind in (HOT, COLD, FILL)}
    document = {
        "schema": SCHEMA,
        "tool": {"name": "hugealign", "version": __version__},
        "binary": {"path": report.binary, "functions_from": report.source, "text_windows": plan.text},
        "profiles": [{"path": path, "format": form} for path, form in report.profiles],
        "unit": report.unit,
        "samples": {
            "total": matched.total,
            "matched": matched.found,
            "foreign": matched.foreign,
            "not_found": [{"name": name, "samples": count} for name, count in matched.missing],
        },
        "budget": {
            "windows": plan.budget,
            "itlb_2m": budget.entries,
            "reserve": budget.reserve,
            "why": budget.why,
        },
        "page_size": plan.page_size,
        "needed": plan.needed,
        "huge": plan.count,
        "simulation": choices.as_json(report.choice) if report.choice else None,
        "whole_text": plan.whole,
        "functions": kinds,
        "windows": [
            {
                "number": w.number,
                "huge": w.huge,
                "bytes": w.used,
                "filled": w.filled,
                "functions": w.functions,
                "samples": w.samples,
            }
            for w in plan.windows
        ],
    }
    return json.dumps(document, indent=1) + "\n"
