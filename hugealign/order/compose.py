"""A plan as an order file, with the names that a linker needs."""

from collections.abc import Mapping

from hugealign.elf.symbols import Functions
from hugealign.order.orderfile import Entry, OrderFile
from hugealign.order.windows import Plan
from hugealign.profile.match import Matched


def compose(plan: Plan, matched: Matched, functions: Functions, header: Mapping[str, str]) -> OrderFile:
    """Return the order file of *plan*; *header* says what it was made from."""
    seen: set[tuple[str, str, int]] = set()
    entries = []
    for placed in plan.placed:
        index = placed.index
        name = functions.names[index]
        shared = len(set(functions.by_name.get(name, ()))) > 1
        entry = Entry(
            name,
            functions.files[index] if shared else "",
            matched.samples.get(index, 0),
            placed.kind,
            placed.window,
            functions.starts[index],
        )
        # Locals of one name from files of one name cannot be told apart: one line stands for all of them.
        if entry.key not in seen:
            seen.add(entry.key)
            entries.append(entry)
    return OrderFile(dict(header), entries)
