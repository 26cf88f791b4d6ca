"""The ranges that docs/measured/peers-summary.md quotes, from the kept figures of all programs.  Pure."""

from collections.abc import Iterable, Iterator
from typing import Any

from lab.bench.peers.report import both, factors, least, ours, series, violations

Ratios = list[tuple[float, str]]  # with the case


def lines(document: dict[str, Any]) -> Iterator[str]:
    """Yield what is quoted of one program: ratios of misses, below 1 where hugealign misses less."""
    yield f"{document['program']}:"
    for where, budgets in (("no window", {0}), ("windows", set(document["budgets"]) - {0})):
        for title, result in _comparisons(document, budgets):
            if result:
                more = [f"{ratio:.3f} {case}" for ratio, case in sorted(result) if ratio > 1]
                yield f"  {where}, {title}: {min(result)[0]:.3f} to {max(result)[0]:.3f} in {len(result)} cases" + (
                    f"; above 1 in {len(more)}: {', '.join(more[-4:])}" if more else ""
                )


def _comparisons(document: dict[str, Any], budgets: set[int]) -> Iterator[tuple[str, Ratios]]:
    cases = [(cpu, budget) for cpu in document["cpus"] for budget in document["budgets"] if budget in budgets]
    blocks = {cpu: both(document, cpu) for cpu in document["cpus"]}
    whole = {cpu: ours(series(document, cpu), "full") for cpu in document["cpus"]}
    yield "blocks against BOLT's", _ratios((c, b, *blocks[c][b]) for c, b in cases if b in blocks[c])
    divided = ((c, b, blocks[c][b][0], least(whole[c], b)) for c, b in cases if b in blocks[c] and b in whole[c])
    yield "blocks against whole functions", _ratios(divided)
    for learned in document["sampled"]:
        worse = {cpu: violations(document, cpu, learned) for cpu in document["cpus"]}
        best = ((c, b, worse[c][b][1], worse[c][b][0]) for c, b in cases if b in worse[c])
        yield f"whole functions against the best peer where that misses less, {learned}", _ratios(best)
        yield f"order and fill against no order, {learned}", _ratios(_against_none(document, learned, cases))
        many = {cpu: factors(document, cpu, learned) for cpu in document["cpus"]}
        fill = [(1 / many[c][b], f"({c.split(',')[0]}, {b})") for c, b in cases if many[c].get(b)]
        yield f"order and fill against the best order without fill, {learned}", fill


def _against_none(
    document: dict[str, Any], learned: str, cases: Iterable[tuple[str, int]]
) -> Iterator[tuple[str, int, int, int]]:
    """Yield the misses with an order and fill, and those of hugealign's links in the linker's own order."""
    for cpu, budget in cases:
        result = series(document, cpu)
        with_order = ours(result, learned)
        plain = [line for (title, known, own, fill), line in result.items() if own and not known and not fill]
        if budget in with_order and plain:
            yield cpu, budget, least(with_order, budget), min(least(line, budget) for line in plain)


def _ratios(cases: Iterable[tuple[str, int, int, int]]) -> Ratios:
    return [(mine / max(1, other), f"({cpu.split(',')[0]}, {budget})") for cpu, budget, mine, other in cases]
