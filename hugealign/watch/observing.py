"""Look up what tells apart the reasons why windows are small: the files behind a process's text, and its copies."""

import contextlib
import itertools
from collections.abc import Sequence

from hugealign.errors import HugealignError
from hugealign.pagecache import measure
from hugealign.process import codefiles, processes
from hugealign.process.processes import Process
from hugealign.process.smaps import Mapping
from hugealign.watch import runtimes, staged
from hugealign.watch.parts import CodePart
from hugealign.watch.reasons import Observed
from hugealign.watch.verdict import PartVerdict, judge_part

CHECKED = 512  # windows of a mapping whose reason is determined
_GLANCED = 8  # windows of a mapping to look up in the page cache for `glance`


def observe(process: Process, mappings: Sequence[Mapping], checked: int) -> Observed:
    """Look up about *process* why windows of *mappings* are small.

    Of each mapping, *checked* windows are looked up in the page cache, which costs a fault each; further ones, up to
    512, are taken to be like these.  With 0, only look up what the process and the builds of the files request.
    """
    disabled = False
    with contextlib.suppress(OSError):
        disabled = processes.thp_disabled(process)
    short = any(m.windows_huge < m.windows_possible for m in mappings)
    wanted = _wanted(process, mappings) if short else {}
    observed = Observed(process.exe, disabled, wanted=wanted, runtime=runtimes.runtime(process.exe, process.files))
    if not checked:
        return observed
    cached: dict[int, bool] = {}
    for mapping in () if disabled else mappings:
        missing = list(itertools.islice(mapping.missing(), CHECKED))
        if some := _cached(process, mapping, missing[:checked]):
            cached |= dict.fromkeys(missing, all(some.values())) | some
    return observed.changed(cached=cached, staged=staged.states(process.pid, mappings))


def glance(process: Process, part: CodePart) -> PartVerdict:
    """Look up about *process* why windows of *part* are small, cheaply, and judge it.

    It looks up few windows in the page cache, and reads what the program said of huge pages for one mapping alone.
    """
    observed = Observed(process.exe, runtime=runtimes.runtime(process.exe, process.files))
    if part.huge() < part.possible():
        observed = observe(process, part.mappings, _GLANCED)
    judged = judge_part(part, observed)
    if judged.wanted > judged.wanted_huge and not observed.thp_disabled:
        judged = judge_part(_with_advice(process.pid, part), observed)
    return judged


def _with_advice(pid: int, part: CodePart) -> CodePart:
    """Return *part* of *pid* with what the program said of huge pages in its largest mapping that lacks one."""

    def lack(mapping: Mapping) -> int:
        return mapping.windows_possible - mapping.windows_huge

    worst = max(part.mappings, key=lack)
    with contextlib.suppress(OSError):
        if processes.no_huge(pid, worst.start):
            marked = [mapping.changed(no_huge=True) if mapping == worst else mapping for mapping in part.mappings]
            return part.changed(mappings=tuple(marked))
    return part


def _cached(process: Process, mapping: Mapping, addresses: Sequence[int]) -> dict[int, bool]:
    """Return whether a new mapping of the file would have the windows at *addresses* of *mapping* huge.

    Nothing is known of a file that may not be opened.
    """
    if not addresses:
        return {}
    file = codefiles.opened_file(process.pid, mapping, process.is_program(mapping), process.elsewhere)
    with contextlib.suppress(HugealignError), file as fd, measure.huge_pages_allowed():
        if fd is not None:
            offsets = [mapping.offset + address - mapping.start for address in addresses]
            return dict(zip(addresses, measure.measure(fd, offsets), strict=True))
    return {}


def _wanted(process: Process, mappings: Sequence[Mapping]) -> dict[int, int]:
    """Return how many leading windows of each of *mappings*, by address, the build of its file requests.

    Mappings are left out if the build requests all windows, or if that is unknown.
    """
    left: dict[tuple[tuple[int, int], int], int | None] = {}  # for files that are mapped in parts
    result = {}
    for mapping in mappings:
        file = mapping.device, mapping.inode
        if file not in left:
            left[file] = None
            opened = codefiles.opened_file(process.pid, mapping, process.is_program(mapping), process.elsewhere)
            with contextlib.suppress(HugealignError), opened as fd:
                left[file] = None if fd is None else measure.windows_meant(fd)
        if (count := left[file]) is not None:
            result[mapping.start] = min(count, mapping.windows_possible)
            left[file] = count - result[mapping.start]
    return result
