"""Costs of text, made up, for what decides by them."""

from dataclasses import replace

from hugealign.system.textcosts import Point, Range, TextCosts

FAULT = Range(5000.0, 6000.0, 9000.0)
#: A first-level miss costs nothing, a walk up to a fourth of the time, from 512 pages on.
COSTS = TextCosts(0.3, FAULT, None, 65536, Range(0.0, 0.0, 0.0), 0.0, 512, Range(3.0, 8.0, 12.0), 0.25)


def windows(cost: float, over: int = 8) -> TextCosts:
    """Return costs where each of more windows than *over* costs so many nanoseconds more."""
    counts = (2, 4, 6, 8, 12, 16, 24, 32)
    return replace(COSTS, windows=tuple(Point(count, 1.0, 1.0 + cost * (count > over)) for count in counts))
