"""An order's blocks as clang's list (``-fbasic-block-sections=list=``), made once for each order and compiler.

sh/launch.sh asks for it when it finds no *index*: a file of one line, the path of the list, named after what tells the
order file, the compiler and the target.  The line is empty where that compiler cannot take a list.  Both lie in our
cache.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from hugealign import orderfile, replacing
from hugealign.descriptors import using
from hugealign.errors import HugealignError
from hugealign.native import cache
from hugealign.orderfile import Entry
from hugealign.units import printable

_SECONDS = 60
_ARGUMENTS = 3


def sayable(name: str) -> bool:
    """Whether clang's list can have the name: a blank would end it there, a ``/`` begin another of the function."""
    return name.isprintable() and bool(name) and name[0] not in "!@#" and not {" ", "/"} & set(name)


def listed(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the lines for the functions that are to be divided.

    The form is the first, ``!f/alias`` and ``!!0 4 2``, which every clang since 12 reads, the newest too
    (llvm/lib/CodeGen/BasicBlockSectionsProfileReader.cpp).  What would be an error there is left out: names that have a
    meaning, and those that came before: functions of one name have the same blocks (ordering/blocks.py).
    """
    said: set[str] = set()
    for entry in entries:
        if not entry.blocks or not sayable(entry.name) or entry.name in said:
            continue
        names = [entry.name, *(alias for alias in entry.aliases if sayable(alias) and alias not in said)]
        said.update(names)
        yield f"!{'/'.join(dict.fromkeys(names))}\n!!{' '.join(map(str, entry.blocks))}\n"


def main(words: Sequence[str]) -> int:
    """Make the index and the list; *words* are the index, the order file, the compiler, and its words for a target."""
    if len(words) < _ARGUMENTS:
        return 2
    index, order, compiler, *target = words
    try:
        text = "".join(listed(orderfile.load(order).entries)).encode("utf-8", "surrogateescape")
        name = f"blocks-{hashlib.sha256(text).hexdigest()[:24]}.list"
        with using(cache()) as directory:
            place = f"/proc/self/fd/{directory}"
            replacing.write(f"{place}/{name}", text, 0o600)
            path = f"{os.path.dirname(index)}/{name}"
            good = bool(text) and _takes(compiler, path, target)
            replacing.write(f"{place}/{os.path.basename(index)}", os.fsencode(f"{path if good else ''}\n"), 0o600)
    except (HugealignError, OSError, ValueError) as error:
        print(f"hugealign: warning: compiled without blocks: {printable(str(error))}", file=sys.stderr)
        return 1
    return 0


def _takes(compiler: str, path: str, target: Sequence[str]) -> bool:
    """Whether the compiler takes the list at *path* for that target, without a word."""
    option = f"-fbasic-block-sections=list={path}"
    command = [compiler, *target, option, *"-x c -c /dev/null -o /dev/null".split()]
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)
        return not done.returncode and not done.stderr
    return False
