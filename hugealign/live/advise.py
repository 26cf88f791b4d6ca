"""`hugealign advise` as functions: whether a command or a process would gain from huge text."""

import os
import shlex
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from hugealign.errors import HugealignError
from hugealign.live import heat, rows, verdict
from hugealign.live.actions import Actions, together
from hugealign.live.entries import Entries, entries
from hugealign.live.heat import Heat, Page
from hugealign.live.verdict import Answer, Counted, Judged
from hugealign.machine import kernel
from hugealign.ordering.budget import budget_of
from hugealign.process import counters, followed, instructions, processes, smaps, texts
from hugealign.process.instructions import Samples
from hugealign.process.pagemap import State
from hugealign.process.processes import GoneError, ProcessError
from hugealign.processor import events
from hugealign.units import printable

SECONDS = 10.0
FREQUENCY = 997  # Hz; no divisor of the usual clocks


@dataclass(frozen=True, slots=True)
class AdviseOptions:
    """How to sample and judge: for *seconds* (a process), at *frequency* samples per second, for the processor *cpu*.

    A command is sampled until it ends, or for *limit* seconds if that is shorter.
    """

    seconds: float = SECONDS
    frequency: int = FREQUENCY
    cpu: str | None = None
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """The advice about *what*: the verdict *judged*, the *heat* behind it, and the TLB *entries* it was compared with.

    *hottest* is the file with the most samples, empty for code without one.  *in_huge* is the share of the samples that
    are already in huge windows.  *command* is the one thing to do next, empty if there is none.  *status* is the exit
    status of the command, None for a process.  *lost* is the number of samples lost for want of room.
    """

    what: str
    judged: Judged
    heat: Heat
    entries: Entries
    hottest: str
    in_huge: float
    command: str
    counted: Counted | None = None
    status: int | None = None
    lost: int = 0


def advise(command: Sequence[str], options: AdviseOptions | None = None) -> Advice:
    """Run *command*, and return whether it would gain from huge text.  Raises HugealignError."""
    options = options or AdviseOptions()
    held = entries(options.cpu)
    counting: list[counters.Counters] = []

    def count(pid: int) -> None:
        if options.cpu is None and (made := _counting(pid, held)):
            counting.append(made)

    try:
        found = followed.follow(command, options.limit, options.frequency, count)
        counted = _counted(counting[0], held) if counting else None
    finally:
        for one in counting:
            one.close()
    spread = heat.heat(found.pages)
    judged = verdict.judge(found.pages, spread, held, counted=counted)
    name = " ".join(shlex.quote(word) for word in command)
    hottest = _hottest(found.pages)
    words = _for_command(command, judged.answer, hottest, spread, held)
    return Advice(printable(name), judged, spread, held, hottest, 0.0, words, counted, found.status, found.lost)


def advise_process(target: str, options: AdviseOptions | None = None) -> Advice:
    """Sample the process *target*, a PID or a name, and return whether it would gain from huge text.

    Raises HugealignError.
    """
    options = options or AdviseOptions()
    pids = processes.find(target)
    if len(pids) > 1:
        pids = [max(pids, key=lambda pid: texts.used(str(pid)))]  # the busiest
    (pid,) = pids
    held = entries(options.cpu)
    counting = _counting(pid, held) if options.cpu is None else None
    try:
        samples = instructions.sample(pid, options.seconds, options.frequency)
        counted = _counted(counting, held) if counting else None
        huge, size = _huge(pid), kernel.huge_page_size()
        pages, name = _resolved(pid, samples)
        rest = Counter({at: count for at, count in samples.addresses.items() if at // size not in huge})
        small, _ = _resolved(pid, Samples(rest))
    except ProcessLookupError:
        raise GoneError(f"process {pid} has ended") from None
    except PermissionError:
        raise processes.forbidden(pid) from None
    finally:
        if counting:
            counting.close()
    spread = heat.heat(pages)
    in_huge = 1 - rest.total() / samples.total if samples.total else 0.0
    judged = verdict.judge(small, spread, held, in_huge, counted)
    hottest = _hottest(pages)
    words = _for_process(pid, judged.answer, hottest)
    return Advice(
        f"{printable(name)}[{pid}]", judged, spread, held, hottest, in_huge, words, counted, None, samples.lost
    )


def _resolved(pid: int, samples: Samples) -> tuple["Counter[Page]", str]:
    """Return the samples by page, and the name of the process."""
    mappings = [mapping for mapping in smaps.parse(processes.maps(pid)) if mapping.executable]
    if not mappings:
        raise ProcessError(f"process {pid} executes nothing: it is a kernel thread, or has ended")
    starts = [mapping.start for mapping in mappings]
    pages: Counter[Page] = Counter()
    for address, count in samples.addresses.items():
        at = bisect_right(starts, address) - 1
        mapping = mappings[at] if at >= 0 and address < mappings[at].end else None
        if mapping is None or not mapping.is_file or mapping.without_file:
            pages["", address >> 12] += count
        else:
            pages[mapping.path, (address - mapping.start + mapping.offset) >> 12] += count
    return pages, processes.comm(pid)


def _huge(pid: int) -> set[int]:
    """Return the numbers of the windows of *pid* that are huge."""
    size = kernel.huge_page_size()
    with suppress(OSError, HugealignError):
        seen = texts.look(pid, size, size)
        if seen is not None:
            return {
                mapping.first_window(size) // size + at
                for mapping in seen.mappings
                for at, state in (mapping.touched(size) or {}).items()
                if state == State.HUGE
            }
    return set()


def _hottest(pages: "Counter[Page]") -> str:
    files: Counter[str] = Counter()
    for (name, _), count in pages.items():
        files[name] += count
    return files.most_common(1)[0][0] if files else ""


def _for_command(command: Sequence[str], answer: Answer, hottest: str, found: Heat, held: Entries) -> str:
    """Return what to do next about *command*."""
    words = printable(" ".join(shlex.quote(word) for word in command))
    if answer == Answer.UNKNOWN:
        return f"hugealign advise --frequency {4 * FREQUENCY} -- {words}"
    if answer not in (Answer.YES, Answer.MAYBE):
        return ""
    if found.windows[-1] > held.huge and hottest:
        program = printable(shlex.quote(hottest))
        return f"perf record -e cpu-clock -g -- {words} && hugealign order perf.data -b {program} -o hot.order"
    libraries = "--libs " if ".so" in os.path.basename(hottest) else ""
    return f"hugealign run --fix {libraries}-- {words}"


def _for_process(pid: int, answer: Answer, hottest: str) -> str:
    """Return what to do next about the hottest part of *pid*, as `top` says."""
    if answer == Answer.UNKNOWN:
        return f"hugealign advise --seconds 60 -p {pid}"
    if answer not in (Answer.YES, Answer.MAYBE):
        return ""
    size = kernel.huge_page_size()
    with suppress(OSError, HugealignError):
        seen = texts.look(pid, size, size)
        groups = rows.group([seen], {}) if seen else []
        # The hottest part first; another one if that cannot be helped.
        groups.sort(key=lambda one: one.members[0][1].path != hottest)
        actions = Actions(size, budget_of().windows)
        for action in together([actions.of(group) for group in groups]):
            if action.command:
                return action.command.removeprefix("run: ")
    return ""


def _counting(pid: int, held: Entries) -> counters.Counters | None:
    """Begin to count the processor's events; return None if it has none or cannot count them."""
    found = events.of(held.cpu)
    if found is None:
        return None
    more = [event.config for event in (*((found.cycles,) if found.cycles else ()), *found.misses)]
    with suppress(OSError):
        return counters.Counters(pid, (counters.CYCLES, counters.INSTRUCTIONS, *map(counters.raw, more)))
    return None


def _counted(counting: counters.Counters, held: Entries) -> Counted | None:
    found = events.of(held.cpu)
    cycles, instructed, *rest = counting.read()
    if found is None or not cycles or not instructed:
        return None
    walks = rest.pop(0) / cycles if found.cycles else None
    names = [event.name for event in (*((found.cycles,) if found.cycles else ()), *found.misses)]
    return Counted(walks, 1000 * sum(rest) / instructed, tuple(names), found.source)
