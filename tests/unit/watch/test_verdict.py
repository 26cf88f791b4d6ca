"""Judging a process: pure, on mappings made up here."""

import re

import pytest

from hugealign.cli.output import plain
from hugealign.diagnosis import documents
from hugealign.diagnosis.values import Diagnosis
from hugealign.process.pagemap import Region, State
from hugealign.process.processes import Process
from hugealign.process.smaps import Mapping
from hugealign.system import kernel
from hugealign.watch.parts import CodeKind, CodePart, split
from hugealign.watch.ps_report import Report, details, lines, text
from hugealign.watch.reasons import Observed
from hugealign.watch.runtimes import RUNTIMES
from hugealign.watch.verdict import Verdict, WindowRun, judge, judge_part
from tests.documents import check

M = 1 << 20
WINDOW = 2 * M
APP = Mapping(0x400000, 0xA00000, 0x200000, "/srv/app", device=(8, 1), inode=5, rss=6 * M, file_pmd=6 * M)
SMALL = Mapping(0x400000, 0xA00000, 0x200000, "/srv/app", rss=6 * M, file_pmd=4 * M)
COLD = Mapping(0x400000, 0xA00000, 0x200000, "/srv/app", rss=4 * M, file_pmd=4 * M)
HEAD = Mapping(0x3F0000, 0xA00000, 0x1F0000, "/srv/app", rss=4 * M + (64 << 10), file_pmd=4 * M)
SHIFTED = Mapping(0x401000, 0xA01000, 0x200000, "/srv/a b", rss=6 * M)
TINY = Mapping(0x400000, 0x410000, 0x200000, "/srv/app", rss=M)
GONE = Mapping(0x400000, 0xA00000, 0x200000, "/srv/app", deleted=True, rss=6 * M)
REPLACED = SHIFTED.changed(deleted=True)
LIBRARY = Mapping(0x7000000, 0x7300000, 0, "/lib/libc.so.6", inode=6)
JIT = Mapping(0x8000000, 0x8400000, 0, "", permissions="rwxp", rss=4 * M)
VDSO = Mapping(0x9000000, 0x9002000, 0, "[vdso]")
DATA = Mapping(0xA00000, 0xB00000, 0x800000, "/srv/app", permissions="r--p")


def process(*mappings: Mapping, thp_disabled: bool = False) -> Process:
    return Process(7, "app", "/srv/app", (0, 0), mappings, thp_disabled=thp_disabled)


EXE = Observed("/srv/app")


def codes(verdict: Verdict) -> list[tuple[int | str, str]]:
    return [(result.facts.get("windows", 0), result.code) for result in verdict.diagnoses]


@pytest.mark.parametrize(
    ("mapping", "head", "expected"),
    [
        (APP, "all 3 windows are huge", []),
        (SMALL, "2 of 3 windows are huge", [(1, "cache.small-pages")]),
        (COLD, "2 of 3 windows are huge", [(1, "process.not-touched")]),
        (HEAD, "2 of 3 windows are huge", [(1, "process.counts-only")]),
        (GONE, "0 of 3 windows are huge", [(3, "file.replaced")]),
        (SHIFTED, "no window can be huge", [(0, "text.no-window")]),
        (TINY, "no window can be huge", [(0, "text.no-window")]),
        (JIT, "0 of 2 windows are huge", [(2, "runtime.small-pages")]),
        (REPLACED, "no window can be huge", [(0, "file.replaced")]),
    ],
)
def test_verdicts_say_why(mapping: Mapping, head: str, expected: list[tuple[int, str]]) -> None:
    verdict = judge(process(mapping), (mapping,))
    assert (verdict.met, codes(verdict)) == (mapping is APP, expected)
    assert plain(lines(verdict)[0]) == f"app[7]: {head}"
    assert len(lines(verdict)) == 1 + len(expected)


def test_disabled_huge_pages_are_the_reason_where_there_could_be_some() -> None:
    assert codes(judge(process(SMALL, thp_disabled=True), (SMALL,))) == [(1, "process.thp-disabled")]
    assert codes(judge(process(SHIFTED, thp_disabled=True), (SHIFTED,))) == [(0, "text.no-window")]


def test_no_text_at_all() -> None:
    verdict = judge(process(), ())
    assert (verdict.met, verdict.text, codes(verdict)) == (False, 0, [(0, "process.no-text")])
    assert not judge(process(), (), 0).met


@pytest.mark.parametrize(("wanted", "met"), [(0.0, True), (66.6, True), (66.7, False), (100.0, False)])
def test_coverage_asked_for_replaces_the_rule_of_all_windows(wanted: float, met: bool) -> None:
    assert judge(process(SMALL), (SMALL,), wanted).met is met


@pytest.mark.parametrize("leading_huge", [True, False])
@pytest.mark.parametrize("exact", [True, False], ids=["page map", "counts"])
def test_windows_that_a_build_does_not_ask_for(leading_huge: bool, exact: bool) -> None:
    """Of three windows one is requested, and it is huge, or one of the others is."""
    start = 0x400000 if leading_huge else 0x800000
    pages = tuple(
        Region(place, place + 2 * M, huge=place == start, file=True) for place in range(APP.start, APP.end, 2 * M)
    )
    mapping = APP.changed(file_pmd=2 * M, pages=pages if exact else None)
    verdict = judge(process(mapping), (mapping,), observed=EXE.changed(wanted={mapping.start: 1}))
    assert (verdict.windows, verdict.possible, verdict.wanted) == (1, 3, 1)
    good = leading_huge or not exact  # which one it is cannot be known from counts
    assert verdict.met is good
    head = "the one window that its build requests is" if good else "0 of 1 windows that its build requests are"
    assert plain(lines(verdict)[0]) == f"app[7]: {head} huge (it has 3)"
    assert [count for count, _ in codes(verdict)] == ([] if good else [1])
    if exact:
        (runs,) = verdict.parts[0].runs
        assert runs is not None
        assert [run.wanted for run in runs] == ([True, False] if leading_huge else [True, False, True])


def test_a_large_file_without_a_window_is_not_passed_over() -> None:
    verdict = judge(process(APP, LIBRARY), (APP, SHIFTED))
    assert (verdict.met, verdict.windows, verdict.possible, verdict.text) == (False, 3, 3, 12 * M)
    assert (verdict.wanted_huge, verdict.wanted, verdict.without) == (3, 3, SHIFTED.size)
    assert codes(verdict) == [(0, "text.no-window")]
    assert judge(process(APP, LIBRARY), (APP, SHIFTED), min_coverage=10).met
    small = SHIFTED.changed(end=SHIFTED.start + WINDOW - 0x1000)
    assert judge(process(APP, LIBRARY), (APP, small)).met


def test_windows_without_code_do_not_count() -> None:
    third = APP.first_window + 2 * WINDOW
    held = APP.changed(code=((third + 5, third + 6),))
    assert (held.windows_possible, held.windows_huge) == (1, 1)
    assert held.whole == (range(2, 3),)
    verdict = judge(process(held), (held,), observed=EXE.changed(wanted={held.start: 1}))
    assert (verdict.met, verdict.wanted, verdict.wanted_huge, verdict.huge) == (True, 1, 1, APP.huge)
    nothing = APP.changed(code=())
    assert (nothing.windows_possible, list(nothing.missing())) == (0, [])


def test_memory_in_the_place_of_the_text_is_text_of_the_program() -> None:
    own = JIT.changed(own=True)
    seen = process(APP, own, JIT)
    assert seen.text() == (APP, own)
    assert [(part.kind, len(part.mappings)) for part in split("/srv/app", (APP, own, JIT))] == [
        ("program", 2),
        ("code", 1),
    ]


def test_which_mappings_are_text() -> None:
    seen = process(APP, DATA, LIBRARY, JIT, VDSO)
    assert seen.text() == (APP,)
    assert seen.text(libraries=True) == (APP, LIBRARY)
    assert seen.text(libraries=True, anonymous=True) == (APP, LIBRARY, JIT)


def test_program_is_known_by_its_file_where_the_name_differs() -> None:
    renamed = Process(7, "app", "/chroot/srv/app", (0x801, 5), (APP, LIBRARY))
    assert renamed.text() == (APP,)


#: The first of three windows is huge, a page of the second is there in small pages, the third is not.
MIXED = APP.changed(
    file_pmd=2 * M,
    pages=(Region(0x400000, 0x600000, huge=True, file=True), Region(0x601000, 0x602000, huge=False, file=True)),
)
WRITTEN = MIXED.changed(pages=(Region(0x400000, 0xA00000, huge=False, file=False),))
ALL_SMALL = (Region(0x400000, 0xA00000, huge=False, file=True),)
MEMORY = MIXED.changed(path="/memfd:app", deleted=True)


@pytest.mark.parametrize(
    ("mapping", "observed", "expected"),
    [
        (MIXED, Observed("/srv/app", cached={0x600000: False}), [(1, "cache.small-pages"), (1, "process.not-touched")]),
        (
            MIXED,
            Observed("/srv/app", cached={0x600000: True, 0x800000: True}),
            [(1, "process.mapped-small"), (1, "process.not-touched")],
        ),
        (MIXED, Observed("/srv/app", cached={0x800000: False}), [(2, "cache.small-pages")]),
        (MIXED.changed(deleted=True), Observed("/srv/app", cached={0x800000: False}), [(2, "file.replaced")]),
        (MIXED, Observed("/srv/app", staged={MIXED.start: "older"}), [(2, "copy.outdated")]),
        (MIXED.changed(no_huge=True), EXE, [(2, "program.small-pages")]),
        (WRITTEN, EXE, [(3, "process.text-written")]),
        (MEMORY, Observed("/memfd:app"), [(2, "copy.in-memory")]),
        (MIXED.changed(path="", own=True, pages=ALL_SMALL), EXE, [(3, "process.text-copied")]),
        (MIXED.changed(path=""), EXE, [(1, "runtime.small-pages"), (1, "process.not-touched")]),
    ],
)
def test_every_missing_window_has_its_reason(
    mapping: Mapping, observed: Observed, expected: list[tuple[int, str]]
) -> None:
    of_program = process(mapping).changed(exe=observed.exe)
    verdict = judge(of_program, (mapping,), observed=observed)
    assert codes(verdict) == expected
    if len(expected) > 1:
        assert lines(verdict)[1].startswith(f"  {expected[0][0]} window")


def test_windows_one_by_one() -> None:
    verdict = judge(process(MIXED), (MIXED,), observed=EXE.changed(cached={0x600000: True}))
    assert list(MIXED.missing()) == [0x600000, 0x800000]
    (runs,) = verdict.parts[0].runs
    assert runs == (
        WindowRun(0x400000, 1, State.HUGE),
        WindowRun(0x600000, 1, State.SMALL, Diagnosis("process.mapped-small", "/srv/app", {})),
        WindowRun(0x800000, 1, State.UNTOUCHED, Diagnosis("process.not-touched", "/srv/app", {})),
    )
    shown = details(verdict)
    assert shown[1].strip() == "#.-"
    assert shown[2].split() == ["0x400000-0x600000", "1", "window", "huge"]


def test_long_lists_are_cut_in_the_text_only() -> None:
    count = 1000
    pages = tuple(Region(2 * i * WINDOW, (2 * i + 1) * WINDOW, huge=True, file=True) for i in range(count // 2))
    mapping = Mapping(0, count * WINDOW, 0, "/srv/app", file_pmd=count * M, pages=pages)
    verdict = judge(process(mapping), (mapping,))
    assert (verdict.windows, verdict.possible) == (count // 2, count)
    assert len(details(verdict)) < 100
    (shown,) = check(documents.text(Report(WINDOW, [verdict], (), ())))["processes"][0]["mappings"]
    assert len(shown["windows"]) == count


def test_memory_that_nobody_touched_takes_no_time() -> None:
    huge, small = (Region(n * WINDOW, (n + 1) * WINDOW, huge=n == 1, file=False) for n in (1, 3))
    code = Mapping(0, 1 << 60, 0, "", pages=(huge, small))
    verdict = judge(process(code), (code,))
    assert (verdict.windows, verdict.possible) == (1, 1 << 39)
    (runs,) = verdict.parts[0].runs
    assert [(run.start // WINDOW, run.count, run.state) for run in runs or ()] == [
        (0, 1, State.UNTOUCHED),
        (1, 1, State.HUGE),
        (2, 1, State.UNTOUCHED),
        (3, 1, State.SMALL),
        (4, (1 << 39) - 4, State.UNTOUCHED),
    ]
    shown = [line.strip() for line in details(verdict)]
    assert shown[1:3] == ["-#-." + 60 * "-", 64 * "-"]
    assert shown[64:66] == [64 * "-", f"… {(1 << 33) - 64} more; see --json"]
    assert len(shown) == 66 + 5 + 1
    part = CodePart(CodeKind.CODE, "", (code,))
    assert (part.huge(), part.touched(), part.possible()) == (1, 2, 1 << 39)


def test_head_and_tail() -> None:
    assert HEAD.ends == (64 << 10, 0)
    assert HEAD.changed(end=0xA01000).ends == (64 << 10, 4 << 10)
    assert TINY.ends == (0, 0)


def test_counts_alone_are_said_to_be_so() -> None:
    verdict = judge(process(SMALL), (SMALL,))
    assert any("only counts are known" in line for line in details(verdict))
    (shown,) = check(documents.text(Report(WINDOW, [verdict], (), ())))["processes"][0]["mappings"]
    assert (shown["windows_source"], shown["windows"], shown["windows_huge"]) == ("smaps", None, 2)


def test_code_of_a_runtime_has_its_name_and_option() -> None:
    hotspot, jit = EXE.changed(runtime=RUNTIMES[0]), CodeKind.CODE
    facts = {"runtime": "HotSpot", "option": "-XX:+UseTransparentHugePages"}
    code = JIT.changed(pages=(Region(JIT.start, JIT.end, huge=False, file=False),))
    result = judge_part(CodePart(jit, "", (code, code)), hotspot)
    assert result.diagnoses == (Diagnosis("runtime.small-pages", "/srv/app", {**facts, "windows": 4}),)
    pieces = JIT.changed(start=JIT.start + 4096, end=JIT.start + 3 * M, pages=())
    result = judge_part(CodePart(jit, "", (pieces,)), hotspot)
    assert result.diagnoses == (Diagnosis("runtime.no-window", "/srv/app", facts),)


def test_large_parts_besides_the_program_count_for_nothing() -> None:
    library = LIBRARY.changed(start=0x7001000, pages=())
    beside = judge_part(CodePart(CodeKind.LIBRARY, library.path, (library,)), EXE)
    verdict = judge(process(APP), (APP,)).changed(others=(beside,))
    assert (verdict.met, codes(verdict)) == (True, [])
    assert lines(verdict)[1] == "  also: libc.so.6, 3.0 MiB: no window can be huge"
    (shown,) = check(documents.text(Report(WINDOW, [verdict], (), ())))["processes"][0]["others"]
    assert (shown["kind"], shown["path"], shown["text_bytes"]) == ("library", "/lib/libc.so.6", 3 * M - 4096)
    assert shown["diagnoses"][0]["code"] == "text.no-window"


def test_a_small_program_whose_text_is_in_a_library() -> None:
    """As Debian's node: the first line is about the program, and says so."""
    beside = judge_part(CodePart(CodeKind.LIBRARY, LIBRARY.path, (LIBRARY,)), EXE)
    verdict = judge(process(TINY), (TINY,)).changed(others=(beside,))
    head, *rest = lines(verdict)
    assert "no window of the program itself can be huge" in head
    assert any(line.startswith("  also: libc.so.6, ") for line in rest)


def test_many_parts_that_are_huge_take_one_line() -> None:
    """As of the libraries of wheels; what is missing has its own line."""
    small = judge_part(CodePart(CodeKind.LIBRARY, "/small.so", (LIBRARY,)), EXE)
    others = [judge_part(CodePart(CodeKind.LIBRARY, f"/{n}.so", (APP,)), EXE) for n in range(5)]
    verdict = judge(process(APP), (APP,))
    assert len(lines(verdict.changed(others=tuple(others[:4])))) == 5
    shown = lines(verdict.changed(others=(*others[:2], small, *others[2:])))
    assert shown[1:] == [
        "  also: small.so, 3.0 MiB: 0 of 1 windows huge",
        "    not touched yet",
        "  also: 5 others, 30.0 MiB: all 15 windows huge; --all lists them",
    ]


def test_what_processes_share_is_shown_once() -> None:
    """A summary, each mapping, a line for each process, and each reason with what helps."""
    cold = APP.changed(rss=6 * M, file_pmd=4 * M)
    first, second = judge(process(APP), (APP,)), judge(process(cold).changed(pid=8), (cold,))
    third = judge(process(cold).changed(pid=9), (cold,))
    shown = [plain(line) for line in text([first, second, third], verbose=False)]
    assert shown[0].startswith("3 processes, what they share counts once: ")
    assert shown[0].count("with 3 windows") == 1
    (row,) = [line for line in shown if "  /srv/app  " in line]
    assert row.split()[:3] == ["7", "+2", "/srv/app"]
    assert "2-3/3" in row
    assert [line.split(":")[0] for line in shown if line.startswith("app[")] == ["app[7]", "app[8] +1"]
    reasons = [line for line in shown if "(2 processes)" in line]
    assert len(reasons) == len([line for line in shown if line.startswith("  app")]) == 1


def test_small_libraries_are_summed_up_and_lines_fit() -> None:
    """Those with less text than HUGEALIGN_MIN_TEXT; -v lists them, and the program's own text is always there."""
    little = [
        LIBRARY.changed(start=at << 30, end=(at << 30) + (64 << 10), path=f"/lib/libsmall{at}.so", inode=at, pages=())
        for at in range(1, 4)
    ]
    mappings = (APP, LIBRARY, *little)
    verdict = judge(process(*mappings), mappings)
    both = [verdict, verdict.changed(process=verdict.process.changed(pid=8))]
    shown = [plain(line) for line in text(both, verbose=False)]
    assert not any("libsmall" in line for line in shown)
    rest = "and 3 mappings with less than 256.0 KiB of text: 192.0 KiB in total; -v lists them"
    assert any(line.strip() == rest for line in shown)
    assert any("libc.so.6" in line for line in shown)
    assert sum("libsmall" in line for line in text([verdict], verbose=True)) >= 3
    named = APP.changed(path="/srv/a/long/way/to/the/program")
    seen = process(named).changed(exe=named.path)
    lines_of_70 = text([judge(seen, (named,))], verbose=False, width=70)
    (row,) = [line for line in lines_of_70 if "MiB" in line]
    assert (len(row) <= 70, re.search("…[a-z/]*/program ", row) is not None) == (True, True)


def test_pages_of_64k_hide_their_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judge(process(APP), (APP,))
    assert text([verdict], verbose=False)[0].endswith("\x1b[32mall 3 windows are huge\x1b[0m")
    monkeypatch.setattr(kernel, "huge_page_size", lambda: 512 * M)
    assert text([verdict], verbose=False, base_page=64 << 10)[-1] == (
        "pages are 64.0 KiB here: runs of contiguous page table entries, below 512.0 MiB, cannot be seen; "
        "see: hugealign verify --kernels"
    )
    assert text([], verbose=False, base_page=64 << 10)[1:] == []


@pytest.mark.parametrize(
    ("huge", "words"), [(0, "0 of 3 windows are"), (1, "1 of 3 windows is"), (3, "all 3 windows are")]
)
def test_one_window_is_huge(huge: int, words: str) -> None:
    mapping = APP.changed(file_pmd=huge * 2 * M, pages=None)
    assert plain(lines(judge(process(mapping), (mapping,)))[0]) == f"app[7]: {words} huge"
