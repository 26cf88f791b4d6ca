"""What a page fault of text costs on this machine, measured without a compiler: for machines that have none.

Of what else text costs (`hugealign.system.textcosts`), nothing is known then: any share of the time may be saved.
"""

import functools
import mmap
import os
import resource
import time
from contextlib import suppress

from hugealign.io.descriptors import using
from hugealign.system import textcosts
from hugealign.system.textcosts import Range, TextCosts

_MAPPED = 4 << 20  # bytes of the file
_AROUND = 16 * mmap.PAGESIZE  # bytes that one fault maps, by default (fault_around_bytes of mm/memory.c)
#: Bytes of its own data that a program touches between two faults: none, the first-level cache, the second.
_EVICTED = (0, 256 << 10, 1 << 20)
_ROUNDS = 3


@functools.cache
def known() -> TextCosts | None:
    """Return what page faults cost, as the only costs that are known; None if that cannot be measured."""
    name = textcosts.name_for("faults")
    if (costs := textcosts.kept(name)[0]) is not None:
        return costs
    with suppress(OSError, AttributeError, ValueError):
        with using(os.memfd_create("text", os.MFD_CLOEXEC)) as fd:
            os.write(fd, b"\xcc" * _MAPPED)
            fault = Range(*sorted(_fault(fd, size) for size in _EVICTED))
        none = Range(0.0, 0.0, 0.0)
        costs = TextCosts(0.0, fault, None, _AROUND, none, 1.0, 0, None, 1.0, certain=False)
        textcosts.keep(name, costs)
    return costs


def _fault(fd: int, evicted: int) -> float:
    """Return the nanoseconds of a page fault of the file *fd*, its share of unmapping included.

    Between two, *evicted* bytes of other memory are read.  Each time is the least of some rounds, since other processes
    run.
    """
    other = bytearray(evicted)
    faulted: list[list[int]] = []
    touched: list[list[int]] = []
    unmapped: list[int] = []
    faults = _MAPPED // _AROUND
    for _ in range(_ROUNDS):
        before = int(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
        text = mmap.mmap(fd, _MAPPED, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
        faulted.append(_touched(text, other))
        faults = max(faults, int(resource.getrusage(resource.RUSAGE_SELF).ru_minflt) - before)
        touched.append(_touched(text, other))  # what Python takes for it
        began = time.perf_counter_ns()
        text.close()
        unmapped.append(time.perf_counter_ns() - began)
    spent = sum(min(times) for times in zip(*faulted, strict=True))
    spent -= sum(min(times) for times in zip(*touched, strict=True))
    each: float = (spent + min(unmapped)) / faults
    return max(0.0, each)


def _touched(text: mmap.mmap, other: bytearray) -> list[int]:
    """Touch all of the *text*, each piece after having read *other*, and return the nanoseconds of each."""
    spent = []
    for at in range(0, _MAPPED, _AROUND):
        other.count(1)
        began = time.perf_counter_ns()
        text[at]
        spent.append(time.perf_counter_ns() - began)
    return spent
