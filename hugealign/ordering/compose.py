"""A plan as an order file, with the names that a linker needs, and an order as other linkers take it."""

from collections.abc import Container, Mapping

from hugealign.elf.symbols import Functions
from hugealign.orderfile import ALIASES, FILL, Entry, OrderFile
from hugealign.ordering.blocks import KeptBlocks
from hugealign.ordering.windows import WindowPlan
from hugealign.profile.match import Matched

_WHOLE: Mapping[int, KeptBlocks] = {}


def compose(
    plan: WindowPlan,
    matched: Matched,
    functions: Functions,
    header: Mapping[str, str],
    kept: Mapping[int, KeptBlocks] = _WHOLE,
) -> OrderFile:
    """Return the order file of *plan*; *header* says what it was made from, *kept* has the blocks of functions."""
    aliases = _aliases(functions, {placed.index for placed in plan.placed})
    seen: set[tuple[str, str, int]] = set()
    parts = {blocks.part for blocks in kept.values()}
    entries = []
    for placed in plan.placed:
        index = placed.index
        name = functions.names[index]
        shared = len(functions.having(name)) > 1
        entry = Entry(
            name,
            functions.files[index] if shared else "",
            matched.samples.get(index, 0),
            placed.kind,
            placed.window,
            functions.starts[index],
            tuple(aliases.get(index, ())),
            kept[index].numbers if index in kept else (),
            kept[index].unit if index in kept else "",
        )
        # Local functions of one name from files of one name cannot be distinguished, nor can the cold parts of
        # functions of one name: one line stands for all of them.
        if shared or index in parts:
            if entry.key in seen:
                continue
            seen.add(entry.key)
        entries.append(entry)
    # A part that leaves a function is likelier to run than functions outside of the order; without a place here, it
    # would come last.
    there = {placed.index for placed in plan.placed}
    last = plan.placed[-1].window if plan.placed else 1
    apart = [kept[placed.index] for placed in plan.placed if placed.index in kept]
    names = dict.fromkeys(
        functions.names[blocks.part] for blocks in apart if blocks.leaves and blocks.part not in there
    )
    entries += [Entry(name, kind=FILL, window=last) for name in names if (name, "", 0) not in seen]
    return OrderFile(dict(header), entries)


def symbol_list(order: OrderFile) -> str:
    """Return a file for lld's ``--symbol-ordering-file``: names, each once.

    lld takes every local function of a name; the file cannot say which.  It leaves out names that begin with ``#`` or a
    space, or that contain a line's end: they cannot be written.
    """
    names = dict.fromkeys(entry.name for entry in order.entries if entry.name)
    return "".join(f"{name}\n" for name in names if "\n" not in name and name == name.strip() and name[0] != "#")


def _aliases(functions: Functions, indices: Container[int]) -> dict[int, list[str]]:
    """Return, by index, the other names of the functions *indices*, without names that several functions have.

    GCC merges functions of the same code (-fipa-icf): the section of the one that is left can be named after any of
    them.
    """
    aliases: dict[int, list[str]] = {}
    first = functions.names
    for name, having in functions.by_name.items():
        index = having[0]
        if name != first[index] and first[index] and len(having) == 1 and index in indices:
            names = aliases.setdefault(index, [])
            if len(names) < ALIASES:
                names.append(name)
    return aliases
