"""An order's blocks as clang's list (``-fbasic-block-sections=list=``), made once for each order and compiler.

sh/launch.sh requests it when it finds no *index*, a file of one line: the path of the list.  The name of the index
identifies the order file, the compiler and the target.  The line is empty if that compiler cannot take a list.  Both
files lie in our cache.
"""

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence

from hugealign import orderfile
from hugealign.errors import HugealignError
from hugealign.io import replacing
from hugealign.io.descriptors import using
from hugealign.io.execution import finished
from hugealign.io.native import cache
from hugealign.io.units import printable
from hugealign.orderfile import Entry

#: The alignment of functions that sh/launch.sh requests of clang along with a list, instead of 16: hot code is denser.
ALIGNMENT = 8
_LESS = "-mllvm", f"-align-all-functions={ALIGNMENT.bit_length() - 1}"  # the words for that
_SECONDS = 60
_ARGUMENTS = 3


def sayable(name: str) -> bool:
    """Return whether clang's list can contain the name: a blank would end it, and a ``/`` begin another name."""
    return name.isprintable() and bool(name) and name[0] not in "!@#" and not {" ", "/"} & set(name)


def sayable_unit(unit: str) -> bool:
    """Return whether clang's list can contain the name of a unit: a blank would end it."""
    return unit.isprintable() and bool(unit) and " " not in unit


def together(orders: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return one list of block numbers for functions of one name: a block that stays in one stays in all.

    If the lists differ, the numbers ascend, which is near the compiler's order: one function's jumps say nothing about
    another's.
    """
    lists = list(dict.fromkeys(map(tuple, orders)))
    return lists[0] if len(lists) == 1 else (0, *sorted({number for numbers in lists for number in numbers} - {0}))


def listed(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the lines for the functions to divide.

    They are in the first form, ``!f/alias`` and ``!!0 4 2``, which every clang since 12 reads, including the newest
    (llvm/lib/CodeGen/BasicBlockSectionsProfileReader.cpp).  Names that would be an error there are left out: those with
    a special meaning, and those that came before.  Functions of one name are not distinguished (`together`).
    """
    named: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.blocks and sayable(entry.name):
            named.setdefault(entry.name, []).append(entry)
    written: set[str] = set()
    for name, alike in named.items():
        if name not in written:
            names = _names(alike[0], written)
            yield f"!{'/'.join(names)}\n!!{' '.join(map(str, together(item.blocks for item in alike)))}\n"


def listed_by_unit(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the same in the second form, which tells functions of one name apart by their units.

    LLVM has it since September 2023 (llvm-project, pull request 65506).  ``m unit`` says that the next function belongs
    to the unit of that name in the debug information.  In other units, and in code without such information, clang
    passes over it.
    """
    yield "v1\n"
    alone = {entry.name for entry in entries if entry.blocks and not entry.unit}
    written: set[str] = set()
    units: set[tuple[str, str]] = set()
    for entry in entries:
        name, unit = entry.name, entry.unit
        if not entry.blocks or not sayable(name) or name in written or (name, unit) in units:
            continue
        if unit and (name in alone or not sayable_unit(unit)):
            continue
        units.add((name, unit))
        front = f"m {unit}\n" if unit else ""
        names = [name] if unit else _names(entry, written)
        yield f"{front}f {' '.join(names)}\nc {' '.join(map(str, entry.blocks))}\n"


def _names(entry: Entry, written: set[str]) -> list[str]:
    """Return the names of a function that are not in *written* yet, and add them to it."""
    names = [entry.name, *(alias for alias in entry.aliases if sayable(alias) and alias not in written)]
    written.update(names)
    return list(dict.fromkeys(names))


def main(words: Sequence[str]) -> int:
    """Make the index and the list; *words* are the index, the order file, the compiler, and its words for a target."""
    if len(words) < _ARGUMENTS:
        return 2
    index, order, compiler, *target = words
    try:
        entries = orderfile.load(order).entries
        with using(cache()) as directory:

            def taken(text: str) -> str:
                """Put a list into our cache, and return its path if the compiler takes it."""
                data = text.encode("utf-8", "surrogateescape")
                name = f"blocks-{hashlib.sha256(data).hexdigest()[:24]}.list"
                replacing.write(f"/proc/self/fd/{directory}/{name}", data, 0o600)
                path = f"{os.path.dirname(index)}/{name}"
                if data and _takes(compiler, path, target):
                    return path
                os.stat(path)  # if it has been removed, that says nothing about the compiler
                return ""

            # Clang 14 silently ignores the second form; a clang that knows the form refuses text that is not in it.
            by_unit = any(entry.unit for entry in entries) and not taken("v1\n?\n")
            forms = (listed_by_unit, listed) if by_unit else (listed,)
            path = next(filter(None, (taken("".join(form(entries))) for form in forms)), "")
            replacing.write(f"/proc/self/fd/{directory}/{os.path.basename(index)}", os.fsencode(f"{path}\n"), 0o600)
    except (HugealignError, OSError, ValueError) as error:
        print(f"hugealign: warning: compiled without blocks: {printable(str(error))}", file=sys.stderr)
        return 1
    return 0


def _takes(compiler: str, path: str, target: Sequence[str]) -> bool:
    """Return whether the compiler silently takes the list at *path*, with sh/launch.sh's other words, for the target.

    Raises HugealignError if it cannot compile without these either: such a failure is not remembered.
    """
    status, messages = _compiled(compiler, target, f"-fbasic-block-sections=list={path}", *_LESS)
    if not status and not messages:
        return True
    failed, usual = _compiled(compiler, target)
    if failed:
        raise HugealignError(f"{compiler} did not compile an empty file")
    return not status and messages == usual


def _compiled(compiler: str, target: Sequence[str], *options: str) -> tuple[int, str]:
    command = [compiler, *target, *options, *"-x c -c /dev/null -o /dev/null".split()]
    try:
        done = finished(command, _SECONDS)
    except TimeoutError:
        raise HugealignError(f"{compiler} was not done with an empty file after {_SECONDS} seconds") from None
    return done.returncode, done.stderr
