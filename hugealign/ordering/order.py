"""`hugealign order` as a function: profiles of a program become an order of its functions and a number of windows."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hugealign.elf.calls import Calls
from hugealign.orderfile import OrderFile
from hugealign.ordering.budget import Budget, budget_of
from hugealign.ordering.compose import compose
from hugealign.ordering.misses import Misses
from hugealign.ordering.problem import Problem, plan
from hugealign.ordering.windows import Plan, Room
from hugealign.profile.ran import Ran, silent, what_ran
from hugealign.settings import PAGE_SIZE


@dataclass(frozen=True, slots=True)
class Order:
    """What was made of what *ran*; *misses* are those that a simulation counted, if there was one."""

    ran: Ran
    budget: Budget
    plan: Plan
    misses: Misses | None = None

    def file(self) -> OrderFile:
        """Return the order file."""
        plan, ran = self.plan, self.ran
        header = {
            "page-size": str(plan.page_size),
            "windows": str(plan.count),
            "budget": f"{plan.budget} ({self.budget.why})",
            "profile": ", ".join(f"{os.path.basename(path)} ({form})" for path, form in ran.sources),
            "binary": os.path.basename(ran.binary),
            "build-id": ran.functions.build_id or "--",
            "matched": f"{ran.matched.found} of {ran.matched.total} {ran.unit}",
        }
        return compose(plan, ran.matched, ran.functions, header)


def order(
    binary: str,
    profiles: Sequence[str],
    *,
    form: str | None = None,
    max_unpacked: int | None = None,
    force: bool = False,
    page_size: int = PAGE_SIZE,
    budget: Budget | None = None,
    fill: bool = True,
    warn: Callable[[str], None] = silent,
) -> Order:
    """Return the order that *profiles* give the functions of the file at *binary*.

    *form* is the format of the profiles, by default what they look like; *max_unpacked* bounds the bytes that packed
    ones may become, and *force* goes on where most samples are not of *binary*.  *page_size* is that of huge pages in
    bytes, *budget* what the processor can hold of them, by default this one's.  With *fill*, functions that probably
    run get the room that is left.  What is odd goes to *warn*.  Raises HugealignError.
    """
    budget = budget or budget_of()
    ran = what_ran(binary, profiles, form=form, max_unpacked=max_unpacked, force=force, warn=warn)
    return of_ran(ran, page_size, budget, fill=fill)


def of_ran(ran: Ran, page_size: int, budget: Budget, *, fill: bool) -> Order:
    """Return the order of what *ran*.  Raises HugealignError."""
    calls = Calls(ran.binary, ran.functions)
    problem = Problem(ran.matched, ran.functions, Room(page_size, budget.windows), calls, calls if fill else None)
    return Order(ran, budget, plan(problem))
