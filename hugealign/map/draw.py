"""`hugealign map` as a function: the heat of a text by window, as linked and under an order."""

from hugealign import orderfile
from hugealign.elf.machines import page_size_of
from hugealign.elf.notes import read_notes
from hugealign.errors import HugealignError
from hugealign.io.descriptors import file_at
from hugealign.io.units import printable
from hugealign.map.layout import Map, after, before
from hugealign.ordering import named
from hugealign.ordering.order import OrderOptions, budget_for, of_ran
from hugealign.ordering.problem import Problem, of_sorted
from hugealign.ordering.sorting import Sorted
from hugealign.ordering.windows import WindowPlan, WindowRoom
from hugealign.profile.ran import Ran
from hugealign.system.budget import Budget


def heat_map(ran: Ran, page_size: int, order: str | None = None) -> Map:
    """Return the map of what *ran* of a file, as linked and under the order in the file *order*.

    Without *order*, it uses the order that `hugealign order` makes of what ran.  Raises HugealignError.
    """
    budget, page_size = budget_for(ran), page_size_of(ran.functions.image.machine, page_size)
    options = OrderOptions(page_size=page_size, budget=budget)
    plan = of_ran(ran, options).plan if order is None else _planned(ran, page_size, budget, order)
    with file_at(ran.binary) as fd:
        note = read_notes(fd, ran.functions.image).build
    try:
        layouts = before(ran.functions, ran.matched, page_size, note), after(ran.functions, ran.matched, plan)
    except HugealignError as error:
        raise HugealignError(f"{printable(ran.binary)}: {error}") from None
    return Map(ran, budget, plan, order or "", note, layouts)


def _planned(ran: Ran, page_size: int, budget: Budget, path: str) -> WindowPlan:
    order = orderfile.load(path)
    indices = list(dict.fromkeys(named.indices(order, path, ran.functions, ran.binary)))
    problem = Problem(ran.matched, ran.functions, WindowRoom(page_size, budget.windows))
    return of_sorted(problem, Sorted(indices), named.windows(order))
