"""The order made from a profile, for people and as JSON.  Pure: returns text."""

from collections.abc import Iterator

from hugealign.io.units import counted, format_size, printable
from hugealign.ordering import unseen
from hugealign.ordering.gain import ONE, SAME, Gain, gain
from hugealign.ordering.order import Order
from hugealign.ordering.windows import WindowPlan
from hugealign.profile.match import Matched
from hugealign.records import Record

_BUILDS_SHOWN = 10
_NAME_SHOWN = 100  # characters of a name
_NOTHING = {
    ONE: "a single function ran",
    SAME: "what ran lies together in this sequence already",
}


class Report(Record):
    """What was made of a profile or a trace."""

    order: Order

    SCHEMA = "hugealign.order-report/1"
    JSON = (
        "binary.path=order.ran.binary binary.functions_from=order.ran.functions.source "
        "binary.text_windows=order.plan.text profiles=order.ran.profiles unit=order.ran.unit "
        "samples.total=order.ran.matched.total samples.matched=order.ran.matched.hits "
        "samples.foreign=order.ran.matched.foreign samples.nameless=order.ran.matched.nameless "
        "samples.builds=order.ran.matched.builds samples.not_found=order.ran.matched.not_found "
        "old_binary=order.carried missed budget.windows=order.plan.budget budget.itlb_2m=order.budget.entries? "
        "budget.why=order.budget.why gain page_size=order.plan.page_size needed=order.plan.needed "
        "huge=order.plan.count simulation=order.simulated.document whole_text=order.plan.whole "
        "functions=order.plan.kinds windows=order.plan.windows"
    )

    @property
    def missed(self) -> unseen.Missed | None:
        """The share of what runs that is probably in functions without a sample or a name; None if unknown."""
        return unseen.missed(self.order.ran.matched)

    @property
    def gain(self) -> Gain:
        """What the order can save; since 1.1."""
        return gain(self.order)


def text(order: Order) -> str:
    """Return the report for people: what was read, the budget, and a table of windows whose lines add up."""
    return "".join(f"{line}\n" for line in _lines(order))


def _lines(order: Order) -> Iterator[str]:
    plan, ran = order.plan, order.ran
    matched = ran.matched
    for path, form in ran.sources:
        yield f"profile  {printable(path)}: {form}"
    share = _percent(matched.hits, matched.total)
    elsewhere = f"{matched.foreign} in other files" if matched.foreign else "none known to be in other files"
    yield f"matched  {share} of {matched.total} {ran.unit} in {printable(ran.binary)}, {elsewhere}"
    if carried := order.carried:
        before = printable(carried.before)
        yield f"old      found {carried.kept} of the {counted(carried.ran, 'function')} that ran in {before}"
        if moved := carried.moved:
            more = f"; {counted(moved.whole, 'function')} changed too much to be split" if moved.whole else ""
            yield f"         and {moved.kept} of {counted(moved.ran, 'block')} that ran in them{more}"
    for name, count in matched.missing[: 3 if matched.rate < 0.95 else 0]:
        yield f"         not found: {printable(name[:_NAME_SHOWN])} ({_percent(count, matched.total)})"
    for build in matched.builds[:_BUILDS_SHOWN]:
        more = ", this one" if ran.functions.is_build(build.build_id) else ""
        if build.guessed:
            more += f", {_percent(build.guessed, build.total)} by neighbours and callers (trust {build.trust:.2f})"
        share = _percent(build.hits, build.total)
        yield f"build    {share} of {build.total} of build {printable(build.build_id[:40])}{more}"
    if len(matched.builds) > _BUILDS_SHOWN:
        yield f"         and {len(matched.builds) - _BUILDS_SHOWN} more builds"
    if missed := unseen.missed(matched):
        yield f"missed   {_missed(missed, matched)}"
    elif matched.nameless:
        yield f"missed   {_percent(matched.nameless, matched.hits)} of the samples are in functions without a name"
    budget = order.budget
    why = budget.why
    if budget.entries:
        why = f"{budget.entries} instruction TLB entries for 2 MiB pages ({why}), less one for other code"
    if plan.budget > budget.windows:
        why += "; more windows cost less here than small pages"
    yield f"budget   {counted(plan.budget, 'window')}: {why}"
    why = order.simulated.why if order.simulated else _why(plan)
    yield f"huge     {counted(plan.count, 'window')} of {format_size(plan.page_size)}: {why}"
    yield from _gain(gain(order), budget.here)
    yield ""
    if order.simulated:
        yield from order.simulated.lines
        yield ""
    yield from _table(plan, matched, missed)
    yield ""
    hot, cold, fill = plan.kinds.values()
    yield f"{hot} hot functions, {cold} cold parts, {fill} filled in; others keep the linker's order"
    if order.blocks is not None:
        stay = sum(blocks.size for blocks in order.blocks.values())
        yield f"{len(order.blocks)} functions split: {format_size(stay)} of their blocks ran"
        whole = (index for index in matched.samples if index not in order.blocks)
        if shared := [i for i in whole if len(ran.functions.having(ran.functions.names[i])) > 1]:
            size = format_size(sum(ran.functions.sizes[i] for i in shared))
            yield f"{counted(len(shared), 'function')} kept whole, {size}: others have the same names"


def _table(plan: WindowPlan, matched: Matched, missed: unseen.Missed | None) -> Iterator[str]:
    """Yield the table of windows; *missed* tells shares of the samples from those of all that runs."""
    seen = 1 - (missed.unseen.share if missed else matched.nameless / matched.hits if matched.hits else 0)
    named = matched.hits - matched.nameless
    yield "window  page      bytes     filled  functions   samples  cumulative  estimate"
    so_far = 0
    for window in plan.windows:
        so_far += window.samples
        yield (
            f"{window.number:6}  {'huge' if window.huge else '4K':4}  {format_size(window.used):>9}  "
            f"{format_size(window.filled):>9}  {window.functions:9}  {_percent(window.samples, matched.hits):>8}  "
            f"{_percent(so_far, matched.hits):>10}  {_estimate(so_far, named, seen):>8}"
        )
    used, filled = (
        format_size(sum(sizes)) for sizes in ([w.used for w in plan.windows], [w.filled for w in plan.windows])
    )
    yield f"   all        {used:>9}  {filled:>9}  {len(plan.placed):9}  {_percent(so_far, matched.hits):>8}"
    if missed:
        yield "samples: share of all samples; estimate: at least this cumulative share of all that runs"


def _missed(missed: unseen.Missed, matched: Matched) -> str:
    more = "" if missed.times is None else f"; with {missed.times:.1f} times as many samples it would be half of that"
    where = "in functions that no sample hit"
    if matched.nameless:
        where += f" or that have no name ({_percent(matched.nameless, matched.hits)} of the samples)"
    return f"about {missed.unseen} of what runs is {where}{more}"


def _estimate(part: int, whole: int, seen: float) -> str:
    return f"{100 * seen * part / whole:.1f} %" if whole else "--"


def _why(plan: WindowPlan) -> str:
    if plan.whole:
        return f"all of the text ({counted(plan.text, 'window')}) is within the budget, whatever the order"
    if not plan.budget:
        return "the order is for small pages"
    if plan.needed > plan.budget:
        return f"what ran needs {plan.needed}; one beyond the budget costs more than it saves"
    if plan.count > plan.needed:
        return f"what ran needs {plan.needed}; the rest is filled with what is likely to run"
    return "what ran needs no more"


def _gain(can: Gain, here: bool) -> Iterator[str]:
    free = f"; {can.reach:,} need no page walk" if can.reach else ""
    yield f"pages    what ran is in {counted(can.linked, 'page')} as linked, in {can.ordered:,} as ordered{free}"
    if can.nothing:
        yield f"gain     none: {_NOTHING[can.nothing]}"
        return
    pages = "hugealign doctor measures what misses of pages cost here; " if here else ""
    if can.saving:
        most = "less than 1" if can.saving.worth is False else f"at most {100 * can.saving.high:.0f}"
        pages = f"{most} % of the time by fewer misses of pages; "
    yield f"gain     {pages}hugealign measure --vs also shows that of cache lines and branches"


def _percent(part: int, whole: int) -> str:
    """Return hundredths of a percent, rounded down, so that 100 % means all."""
    if not whole:
        return "--"
    hundredths = part * 10000 // whole
    return f"{hundredths // 100}.{hundredths % 100:02} %"
