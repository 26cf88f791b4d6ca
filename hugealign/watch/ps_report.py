"""Show verdicts on processes: a table, the windows one by one, JSON.  Pure functions."""

from collections.abc import Sequence

from hugealign.diagnosis import render
from hugealign.diagnosis.documents import Failed
from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.elf.machines import least_text, native
from hugealign.elf.windows import BASE_PAGE
from hugealign.io.units import are, counted, format_size, printable
from hugealign.process.pagemap import State
from hugealign.process.smaps import Mapping, coverage
from hugealign.records import Record
from hugealign.system import kernel
from hugealign.watch.parts import CodeKind
from hugealign.watch.verdict import PartVerdict, Verdict, WindowRun

_SIGNS = {State.HUGE: "#", State.SMALL: ".", State.WRITTEN: "w", State.UNTOUCHED: "-"}
_ROW = 64  # windows in a row of the strip
_NARROWEST = 16  # columns of a name
_SHOWN = 8  # PIDs in a line
_FEW = 4  # other parts without anything missing that get a line each
_ROWS = 64  # rows of strip or list per mapping; JSON has them all


class Report(Record):
    """The text of processes."""

    page_size: int
    """Bytes of a window."""
    processes: Sequence[Verdict]
    not_counted: Sequence[int]
    """Processes of a service with less text than a window, beside others with more; since 1.1."""
    errors: Sequence[Failed]

    SCHEMA = "hugealign.ps/1"
    JSON = "page_size processes not_counted errors"


def table(verdicts: Sequence[Verdict], *, width: int = 0, verbose: bool = True) -> list[str]:
    """Return the lines of the table: one for each mapping, and for the same mapping of several processes.

    Names are cut so that lines fit *width* columns, 0 for any.  Unless *verbose*, a line sums up what has too little
    text to be worth a window.
    """
    alike: dict[tuple[object, ...], list[tuple[Verdict, Mapping]]] = {}
    little: dict[tuple[object, ...], int] = {}  # bytes
    least = least_text(native())
    for verdict in verdicts:
        parts = [part for part in verdict.parts if part.part.text < least and not part.windows]
        small = {mapping.start for part in parts for mapping in part.part.mappings}
        for m in verdict.mappings:
            if m.start in small and not verbose and not verdict.process.is_program(m):
                little[_shared(verdict, m)] = m.size
                continue
            how = _how(m) or ("small pages" if m.windows_possible else "no whole window")
            how += ", staged" * (m.start in verdict.staged) + ", by enable --all" * (m.start in verdict.machine)
            key = (how, verdict.process.is_program(m), *_shared(verdict, m))
            alike.setdefault(key, []).append((verdict, m))
    rows = [("PID", "MAPPING", "TEXT", "WINDOWS", "COVERED", "HOW")]
    for (state, is_program, *_), members in alike.items():
        verdict, m = members[0]
        possible, pid = m.windows_possible, str(verdict.process.pid)
        label = m.path if is_program else m.path.rpartition("/")[2]
        label = printable(label or "(its text, copied)" * m.own) or "(anonymous)"
        some = possible or any(mapping.huge for _, mapping in members)
        covered = _from_to([coverage(mapping.huge, m.size) for _, mapping in members], "{:.1f}") + "%" if some else "--"
        windows = _from_to([mapping.windows_huge for _, mapping in members], "{}") + f"/{possible}"
        if others := len({each.process.pid for each, _ in members}) - 1:
            pid += f" +{others}"
        rows.append((pid, label, format_size(m.size), windows, covered, str(state)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    over = sum(widths) + 2 * (len(widths) - 1) - width if width else 0
    widths[1] = max(min(widths[1], _NARROWEST), widths[1] - max(over, 0))
    line = "  ".join(f"{{:{side}{width}}}" for side, width in zip("><>>><", widths, strict=True))
    result = [line.format(row[0], _last(row[1], widths[1]), *row[2:]).rstrip() for row in rows]
    if little:
        files = f"{counted(len(little), 'mapping')} with less than {format_size(least)} of text"
        result.append(f"{'':{widths[0]}}  and {files}: {format_size(sum(little.values()))} in total; -v lists them")
    return result


def _how(mapping: Mapping) -> str:
    """Return the kinds of its huge pages; empty without any."""
    kinds = (
        ("file", mapping.file_pmd),
        ("tmpfs", mapping.shmem_pmd),
        ("anonymous", mapping.anon_huge),
        ("hugetlb", mapping.shared_hugetlb + mapping.private_hugetlb),
    )
    names = ", ".join(name for name, count in kinds if count)
    return f"huge pages ({names})" if names else ""


def _last(text: str, most: int) -> str:
    return text if len(text) <= most else f"…{text[1 - most :]}"


def _shared(verdict: Verdict, mapping: Mapping) -> tuple[object, ...]:
    """Return what identifies the text of *mapping*; processes share that of a file."""
    if mapping.without_file:
        return verdict.process.pid, mapping.start
    return mapping.path, *mapping.device, mapping.inode, mapping.offset, mapping.size


def _from_to(numbers: Sequence[float], form: str) -> str:
    return "-".join(dict.fromkeys((form.format(min(numbers)), form.format(max(numbers)))))


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return a line on several processes: what they share counts once."""
    texts: dict[tuple[object, ...], list[Mapping]] = {}
    for verdict in verdicts:
        for mapping in verdict.mappings:
            texts.setdefault(_shared(verdict, mapping), []).append(mapping)
    possible = sum(same[0].windows_possible for same in texts.values())
    huge = [sum(choose(m.windows_huge for m in same) for same in texts.values()) for choose in (min, max)]
    size = format_size(sum(same[0].size for same in texts.values()))
    shares = "what they share counts once: " if sum(map(len, texts.values())) > len(texts) else ""
    return (
        f"{len(verdicts)} processes, {shares}{size} of text with {counted(possible, 'window')}, "
        f"{_from_to(huge, '{}')} of them huge"
    )


def lines(verdict: Verdict) -> list[str]:
    """Return the verdict in words, with reasons and remedies on lines of their own."""
    return [_head(verdict), *_why(verdict)]


def _why(verdict: Verdict) -> list[str]:
    """Return why not all is huge, with what helps."""
    result: list[str] = []
    several = len(verdict.diagnoses) > 1
    shown: set[Remedy | None] = set()
    for diagnosis in verdict.diagnoses:
        of = f"{printable(diagnosis.subject.rpartition('/')[2])}: " if diagnosis.subject != verdict.process.exe else ""
        windows = int(diagnosis.facts.get("windows", 0))
        count = f"{counted(windows, 'window')}: " if several and windows else ""
        result += _indented(diagnosis, of + count, 2, shown)
    huge = [other for other in verdict.others if other.windows == other.possible > 0 and not other.diagnoses]
    many = len(huge) > _FEW
    for other in verdict.others:
        if not many or other not in huge:
            result += _other_lines(other, shown)
    if many:
        size, windows = sum(other.part.text for other in huge), sum(other.windows for other in huge)
        result.append(f"  also: {len(huge)} others, {format_size(size)}: all {windows} windows huge; --all lists them")
    return result


def _heads(verdicts: Sequence[Verdict]) -> list[str]:
    """Return the line for each process, those that differ in nothing but their PIDs together."""
    alike: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        alike.setdefault((verdict.process.comm, _state(verdict)), []).append(verdict)
    return [_head(same[0], len(same) - 1) for same in alike.values()]


def reasons(verdicts: Sequence[Verdict]) -> list[str]:
    """Return why not all is huge in several processes, each reason once, with what helps."""
    found: dict[tuple[str, str, Remedy | None], list[Diagnosis]] = {}
    for verdict in verdicts:
        others = (other for each in verdict.others for other in each.diagnoses[:1])
        for diagnosis in (*verdict.diagnoses, *others):
            remedy = diagnosis.remedy and diagnosis.remedy.changed(before=None, after=None)
            found.setdefault((diagnosis.subject, diagnosis.code, remedy), []).append(diagnosis)
    result: list[str] = []
    shown: set[Remedy | None] = set()
    for (subject, _, _), same in found.items():
        count = f" ({len(same)} processes)" if len(same) > 1 else ""
        most = max(same, key=lambda diagnosis: int(diagnosis.facts.get("windows", 0)))
        result += _indented(most, f"{printable(subject.rpartition('/')[2])}{count}: ", 2, shown)
    return result


def _head(verdict: Verdict, more: int = 0) -> str:
    """Return the verdict in one line, of *more* processes also."""
    others = f" +{more}" if more else ""
    return f"{printable(verdict.process.comm)}[{verdict.process.pid}]{others}: {_state(verdict)}"


def _state(verdict: Verdict) -> str:
    held, wanted, possible = verdict.wanted_huge, verdict.wanted, verdict.possible
    if not possible:
        # A small program, as Debian's node, has its text in a library.
        of_itself = " of the program itself" * any(other.possible for other in verdict.others)
        head = f"no window{of_itself} can be huge"
    else:
        some = wanted < possible
        which, rest = ("windows that its build requests", f" (it has {possible})") if some else ("windows", "")
        head = f"{'all' if held == wanted else f'{held} of'} {wanted} {which} {are(held)} huge{rest}"
        if held == wanted == 1:
            head = f"the one window that its build requests is huge{rest}" if some else "its one window is huge"
    if verdict.without:
        head += f"; {format_size(verdict.without)} of text have none"
    return render.painted(head, "ok" if verdict.met else "warning")


def _indented(diagnosis: Diagnosis, prefix: str, indent: int, shown: set[Remedy | None]) -> list[str]:
    """Return the lines of *diagnosis*, without a remedy that was *shown* already: one start helps several parts."""
    what, *remedy = render.lines(diagnosis)
    done = diagnosis.remedy and diagnosis.remedy.changed(before=None, after=None)
    result = [f"{' ' * indent}{prefix}{what}", *(f"{' ' * indent}{line}" for line in remedy if done not in shown)]
    shown.add(done)
    return result


def _other_lines(other: PartVerdict, shown: set[Remedy | None]) -> list[str]:
    part = other.part
    pieces = f" in {len(part.mappings)} mappings" if len(part.mappings) > 1 else ""
    state = f"{other.windows} of {other.possible} windows huge" if other.possible else "no window can be huge"
    name = printable(part.path.rpartition("/")[2]) if part.kind == CodeKind.LIBRARY else "code without a file"
    result = [f"  also: {name}, {format_size(part.text)}{pieces}: {state}"]
    for diagnosis in other.diagnoses[:1]:
        result += _indented(diagnosis, "", 4, shown)
    return result


def details(verdict: Verdict) -> list[str]:
    """Return the lines that show each window of *verdict*: a strip of signs, and ranges with their reasons."""
    result = []
    all_runs = [runs for part in verdict.parts for runs in part.runs]
    for mapping, runs in zip(verdict.mappings, all_runs, strict=True):
        if not mapping.windows_possible:
            continue
        result.append(f"  {printable(mapping.path) or '(anonymous)'} at {mapping.start:#x}:")
        if runs is None:
            result.append("    only counts are known (windows from smaps): PAGEMAP_SCAN needs Linux 6.7")
        else:
            rows = -(-sum(run.count for run in runs) // _ROW)
            result += _limited([f"    {row}" for row in _strip(runs)], rows)
            result += _limited([f"    {_range(run)}" for run in runs[:_ROWS]], len(runs))
        head, tail = mapping.ends
        for name, size in (("head", head), ("tail", tail)):
            if size:
                result.append(f"    {name} of {format_size(size)}: no whole window")
    if any(all_runs):
        result.append("  (# huge, . small pages, w written to, - not touched yet)")
    return result


def text(
    verdicts: Sequence[Verdict],
    verbose: bool,
    base_page: int = BASE_PAGE,
    *,
    width: int = 0,
    little: Sequence[int] = (),
) -> list[str]:
    """Return the lines for people, for *width* columns: a sum, the table, and reasons; with *verbose*, each window.

    *little* are the PIDs of what does not count.
    *base_page* is the kernel's.  With pages of 64 KiB, text may lie in runs of contiguous entries
    (arch/arm64/mm/contpte.c), which neither smaps nor PAGEMAP_SCAN shows.
    """
    page_size = kernel.huge_page_size()
    several = len(verdicts) > 1
    result = [summary(verdicts), *_heads(verdicts), ""] if several else [*map(_head, verdicts)]
    result += table(verdicts, width=width, verbose=verbose)
    for verdict in verdicts:
        result += [_head(verdict)] if several and verbose else []
        result += [] if several else _why(verdict)
        result += details(verdict) if verbose else []
    if several:
        result += reasons(verdicts)
    if little:
        helpers = counted(len(little), "process", "processes")
        pids = " ".join(map(str, little[:_SHOWN])) + " ..." * (len(little) > _SHOWN)
        result.append(f"not counted: {helpers} of the service with less than {format_size(page_size)} of text ({pids})")
    if base_page != BASE_PAGE and verdicts:
        runs = f"runs of contiguous page table entries, below {format_size(page_size)}"
        result.append(
            f"pages are {format_size(base_page)} here: {runs}, cannot be seen; see: hugealign verify --kernels"
        )
    return result


def _strip(runs: Sequence[WindowRun]) -> list[str]:
    """Return the rows that are shown; there may be millions."""
    room = _ROW * _ROWS
    signs = ""
    for run in runs:
        signs += _SIGNS[run.state] * min(run.count, room - len(signs))
        if len(signs) == room:
            break
    return [signs[start : start + _ROW] for start in range(0, len(signs), _ROW)]


def _range(run: WindowRun) -> str:
    windows = counted(run.count, "window")
    why = render.sentence(run.diagnosis) if run.diagnosis else "huge" if run.wanted else "not requested by its build"
    return f"{run.start:#x}-{run.start + run.count * kernel.huge_page_size():#x}  {windows:10}  {why}"


def _limited(lines: list[str], count: int) -> list[str]:
    """Return *lines*, and how many more of *count* there are."""
    return lines if count <= _ROWS else [*lines, f"    … {count - _ROWS} more; see --json"]
