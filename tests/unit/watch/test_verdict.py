"""Judging a process: pure, on mappings made up here."""

from dataclasses import replace

import pytest

from hugealign.process.pagemap import Region, State
from hugealign.process.processes import Process
from hugealign.process.smaps import Mapping
from hugealign.watch.parts import CodeKind, CodePart, split
from hugealign.watch.ps_report import details, document, ends, text
from hugealign.watch.runtimes import RUNTIMES, Runtime
from hugealign.watch.verdict import Beside, Hints, WindowRun, judge, judge_beside, rodata

M = 1 << 20
WINDOW = 2 * M
APP = Mapping(0x400000, 0xA00000, 0x200000, "/srv/app", device=(8, 1), inode=5, rss=6 * M, file_pmd=6 * M)
SMALL = Mapping(0x400000, 0xA00000, 0x200000, "/srv/app", rss=6 * M, file_pmd=4 * M)
COLD = Mapping(0x400000, 0xA00000, 0x200000, "/srv/app", rss=4 * M, file_pmd=4 * M)
HEAD = Mapping(0x3F0000, 0xA00000, 0x1F0000, "/srv/app", rss=4 * M + (64 << 10), file_pmd=4 * M)
SHIFTED = Mapping(0x401000, 0xA01000, 0x200000, "/srv/a b", rss=6 * M)
TINY = Mapping(0x400000, 0x410000, 0x200000, "/srv/app", rss=M)
GONE = Mapping(0x400000, 0xA00000, 0x200000, "/srv/app", deleted=True, rss=6 * M)
REPLACED = replace(SHIFTED, deleted=True)
LIBRARY = Mapping(0x7000000, 0x7300000, 0, "/lib/libc.so.6", inode=6)
JIT = Mapping(0x8000000, 0x8400000, 0, "", permissions="rwxp", rss=4 * M)
VDSO = Mapping(0x9000000, 0x9002000, 0, "[vdso]")
DATA = Mapping(0xA00000, 0xB00000, 0x800000, "/srv/app", permissions="r--p")


def process(*mappings: Mapping, thp_disabled: bool = False) -> Process:
    return Process(7, "app", "/srv/app", (0, 0), thp_disabled, mappings)


@pytest.mark.parametrize(
    ("mapping", "head", "reason", "mend"),
    [
        (APP, "all 3 windows are huge", "", ""),
        (
            SMALL,
            "2 of 3 windows are huge",
            "the page cache holds its text in small pages",
            "stop it, then: hugealign warm /srv/app",
        ),
        (
            COLD,
            "2 of 3 windows are huge",
            "what is in use is huge; the other windows were not touched yet",
            "look again later",
        ),
        (
            HEAD,
            "2 of 3 windows are huge",
            "the others are in small pages, or not touched yet",
            "see: hugealign warm --check /srv/app",
        ),
        (
            GONE,
            "0 of 3 windows are huge",
            "its file was deleted or replaced since it started",
            "start it again",
        ),
        (
            SHIFTED,
            "no window can be huge",
            "its text, 6.0 MiB, is not aligned",
            "see: hugealign verify '/srv/a b'",
        ),
        (TINY, "no window can be huge", "its text, 64.0 KiB, is below 2.0 MiB", ""),
        (JIT, "0 of 2 windows are huge", "code without a file is on small pages", "run: hugealign adapt 7"),
        (
            REPLACED,
            "no window can be huge",
            "its file was deleted or replaced since it started",
            "start it again",
        ),
    ],
)
def test_verdicts_say_why_and_what_to_do(mapping: Mapping, head: str, reason: str, mend: str) -> None:
    verdict = judge(process(mapping), (mapping,), WINDOW)
    assert (verdict.met, verdict.reason, verdict.mend) == (mapping is APP, reason, mend)
    assert verdict.line.splitlines() == [f"app[7]: {head}", *(f"  {line}" for line in (reason, mend) if line)]


def test_disabled_huge_pages_are_the_reason_where_there_could_be_some() -> None:
    verdict = judge(process(SMALL, thp_disabled=True), (SMALL,), WINDOW)
    assert verdict.reason == "huge pages are disabled for it: prctl(PR_SET_THP_DISABLE)"
    assert "not aligned" in judge(process(SHIFTED, thp_disabled=True), (SHIFTED,), WINDOW).reason


def test_no_text_at_all() -> None:
    verdict = judge(process(), (), WINDOW)
    assert (verdict.met, verdict.text) == (False, 0)
    assert "maps no text" in verdict.line
    assert not judge(process(), (), WINDOW, 0).met


@pytest.mark.parametrize(("wanted", "met"), [(0.0, True), (66.6, True), (66.7, False), (100.0, False)])
def test_coverage_asked_for_replaces_the_rule_of_all_windows(wanted: float, met: bool) -> None:
    assert judge(process(SMALL), (SMALL,), WINDOW, wanted).met is met


@pytest.mark.parametrize("leading_huge", [True, False])
@pytest.mark.parametrize("exact", [True, False], ids=["page map", "counts"])
def test_windows_that_a_build_does_not_ask_for(leading_huge: bool, exact: bool) -> None:
    """Of three windows one is asked for, and it is huge, or one of the others is."""
    start = 0x400000 if leading_huge else 0x800000
    pages = tuple(
        Region(place, place + 2 * M, huge=place == start, file=True) for place in range(APP.start, APP.end, 2 * M)
    )
    mapping = replace(APP, file_pmd=2 * M, pages=pages if exact else None)
    verdict = judge(process(mapping), (mapping,), WINDOW, asked={mapping.start: 1})
    assert (verdict.windows, verdict.possible, verdict.wanted) == (1, 3, 1)
    good = leading_huge or not exact  # which one it is cannot be known from counts
    assert verdict.met is good
    head = "the one window that its build asks for is" if good else "0 of 1 windows that its build asks for are"
    assert verdict.line.splitlines()[0] == f"app[7]: {head} huge (it has 3)"
    assert [count for count, *_ in verdict.reasons] == ([] if good else [1])
    if exact:
        (runs,) = verdict.runs
        assert runs is not None
        assert [run.beyond for run in runs] == ([False, True] if leading_huge else [False, True, False])


def test_a_large_file_without_a_window_is_not_passed_over() -> None:
    verdict = judge(process(APP, LIBRARY), (APP, SHIFTED), WINDOW)
    assert (verdict.met, verdict.windows, verdict.possible, verdict.text) == (False, 3, 3, 12 * M)
    assert (verdict.held, verdict.wanted, verdict.without) == (3, 3, SHIFTED.size)
    assert [count for count, *_ in verdict.reasons] == [0]
    assert judge(process(APP, LIBRARY), (APP, SHIFTED), WINDOW, min_coverage=10).met
    small = replace(SHIFTED, end=SHIFTED.start + WINDOW - 0x1000)
    assert judge(process(APP, LIBRARY), (APP, small), WINDOW).met


def test_windows_without_code_do_not_count() -> None:
    third = APP.first_window(WINDOW) + 2 * WINDOW
    held = replace(APP, code=((third + 5, third + 6),))
    assert (held.windows_possible(WINDOW), held.windows_huge(WINDOW)) == (1, 1)
    assert held.whole(WINDOW) == (range(2, 3),)
    verdict = judge(process(held), (held,), WINDOW, asked={held.start: 1})
    assert (verdict.met, verdict.wanted, verdict.held, verdict.huge) == (True, 1, 1, APP.huge)
    nothing = replace(APP, code=())
    assert (nothing.windows_possible(WINDOW), list(nothing.missing(WINDOW))) == (0, [])


def test_memory_in_the_place_of_the_text_is_text_of_the_program() -> None:
    own = replace(JIT, own=True)
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
    renamed = Process(7, "app", "/chroot/srv/app", (0x801, 5), False, (APP, LIBRARY))
    assert renamed.text() == (APP,)


#: The first of three windows is huge, a page of the second is there in small pages, the third is not.
MIXED = replace(
    APP,
    file_pmd=2 * M,
    pages=(Region(0x400000, 0x600000, huge=True, file=True), Region(0x601000, 0x602000, huge=False, file=True)),
)
WRITTEN = replace(MIXED, pages=(Region(0x400000, 0xA00000, huge=False, file=False),))
NO_WARM = "the page cache holds its text in small pages"


@pytest.mark.parametrize(
    ("mapping", "cached", "reasons"),
    [
        (MIXED, {0x600000: False}, [(1, NO_WARM, "stop it, then: hugealign warm /srv/app"),
                                    (1, "not touched yet", "look again later")]),
        (MIXED, {0x600000: True, 0x800000: True},
         [(1, "the page cache has it huge, but it was mapped in small pages", "start it again"),
          (1, "not touched yet", "look again later")]),
        (MIXED, {0x800000: False}, [(1, NO_WARM, "stop it, then: hugealign warm /srv/app"),
                                    (1, "not touched yet, and not warmed", "run: hugealign warm /srv/app")]),
        (replace(MIXED, deleted=True), {0x800000: False},
         [(2, "its file was deleted or replaced since it started", "start it again")]),
        (replace(MIXED, no_huge=True), {},
         [(2, "the program asked for small pages: madvise(MADV_NOHUGEPAGE)", "")]),
        (WRITTEN, {}, [(3, "it has written to the text: a breakpoint, a probe or a relocation", "start it again")]),
    ],
)  # fmt: skip
def test_every_missing_window_has_its_reason(
    mapping: Mapping, cached: dict[int, bool], reasons: list[tuple[int, str, str]]
) -> None:
    verdict = judge(process(mapping), (mapping,), WINDOW, cached=cached)
    assert list(verdict.reasons) == reasons
    if len(reasons) > 1:
        assert verdict.line.splitlines()[1] == f"  1 window: {reasons[0][1]}"


def test_in_another_mount_namespace_the_mend_says_so() -> None:
    seen = replace(process(MIXED), elsewhere=True)
    verdict = judge(seen, (MIXED,), WINDOW, cached={0x600000: False, 0x800000: False})
    assert [mend for _, _, mend in verdict.reasons] == [
        "in its container or mount namespace, stop it, then run: hugealign warm /srv/app",
        "in its container or mount namespace, run: hugealign warm /srv/app",
    ]
    shifted = judge(replace(process(SHIFTED), elsewhere=True), (SHIFTED,), WINDOW)
    assert shifted.mend == "see: hugealign verify '/proc/7/root/srv/a b'"


def test_windows_one_by_one() -> None:
    verdict = judge(process(MIXED), (MIXED,), WINDOW, cached={0x600000: True})
    assert list(MIXED.missing(WINDOW)) == [0x600000, 0x800000]
    assert verdict.runs[0] is not None
    assert [(run.start, run.count, run.state) for run in verdict.runs[0]] == [
        (0x400000, 1, State.HUGE),
        (0x600000, 1, State.SMALL),
        (0x800000, 1, State.UNTOUCHED),
    ]
    assert verdict.runs[0][0] == WindowRun(0x400000, 1, State.HUGE, "", "")
    lines = details(verdict, WINDOW)
    assert lines[1].strip() == "#.-"
    assert lines[2].split() == ["0x400000-0x600000", "1", "window", "huge"]


def test_long_lists_are_cut_in_the_text_only() -> None:
    count = 1000
    pages = tuple(Region(2 * i * WINDOW, (2 * i + 1) * WINDOW, huge=True, file=True) for i in range(count // 2))
    mapping = Mapping(0, count * WINDOW, 0, "/srv/app", file_pmd=count * M, pages=pages)
    verdict = judge(process(mapping), (mapping,), WINDOW)
    assert (verdict.windows, verdict.possible) == (count // 2, count)
    assert len(details(verdict, WINDOW)) < 100
    (shown,) = document([verdict], [], WINDOW)["processes"][0]["mappings"]
    assert len(shown["windows"]) == count


def test_memory_that_nobody_touched_takes_no_time() -> None:
    huge, small = (Region(n * WINDOW, (n + 1) * WINDOW, huge=n == 1, file=False) for n in (1, 3))
    code = Mapping(0, 1 << 60, 0, "", pages=(huge, small))
    verdict = judge(process(code), (code,), WINDOW)
    assert (verdict.windows, verdict.possible) == (1, 1 << 39)
    assert [(run.start // WINDOW, run.count, run.state) for run in verdict.runs[0] or ()] == [
        (0, 1, State.UNTOUCHED),
        (1, 1, State.HUGE),
        (2, 1, State.UNTOUCHED),
        (3, 1, State.SMALL),
        (4, (1 << 39) - 4, State.UNTOUCHED),
    ]
    shown = [line.strip() for line in details(verdict, WINDOW)]
    assert shown[1:3] == ["-#-." + 60 * "-", 64 * "-"]
    assert shown[64:66] == [64 * "-", f"… {(1 << 33) - 64} more; see --format json"]
    assert len(shown) == 66 + 5 + 1
    part = CodePart(CodeKind.CODE, "", (code,))
    assert (part.huge(WINDOW), part.touched(WINDOW), part.possible(WINDOW)) == (1, 2, 1 << 39)


def test_head_and_tail() -> None:
    assert ends(HEAD, WINDOW) == (64 << 10, 0)
    assert ends(replace(HEAD, end=0xA01000), WINDOW) == (64 << 10, 4 << 10)
    assert ends(TINY, WINDOW) == (0, 0)


def test_counts_alone_are_said_to_be_so() -> None:
    verdict = judge(process(SMALL), (SMALL,), WINDOW)
    assert any("only counts are known" in line for line in details(verdict, WINDOW))
    (shown,) = document([verdict], [], WINDOW)["processes"][0]["mappings"]
    assert (shown["windows_source"], shown["windows"], shown["windows_huge"]) == ("smaps", None, 2)


HOTSPOT = RUNTIMES[0]


def beside(*mappings: Mapping, kind: CodeKind = CodeKind.CODE, runtime: Runtime | None = None) -> Beside:
    found = CodePart(kind, mappings[0].path if kind == CodeKind.LIBRARY else "", mappings)
    return judge_beside(process(TINY), found, WINDOW, Hints(lambda path: f"run: mend {path}", runtime))


def test_code_of_a_runtime_has_its_name_its_size_and_the_option_that_mends_it() -> None:
    code = replace(JIT, pages=(Region(JIT.start, JIT.end, huge=False, file=False),))
    found = beside(code, code, runtime=HOTSPOT)
    assert found.line == "HotSpot code, 8.0 MiB in 2 mappings: 0 of 4 windows huge: HotSpot code is on small pages"
    assert found.mend == "run: hugealign adapt 7, or start it with -XX:+UseTransparentHugePages"
    small = replace(JIT, start=JIT.start + 4096, end=JIT.start + 3 * M, pages=())
    found = beside(small, runtime=HOTSPOT)
    assert found.line == "HotSpot code, 3.0 MiB: no window can be huge: HotSpot code lies in no whole window"
    assert found.mend == "start it with -XX:+UseTransparentHugePages"


def test_library_beside_has_a_mend_of_its_own() -> None:
    library = replace(LIBRARY, start=0x7001000, pages=())
    found = beside(library, kind=CodeKind.LIBRARY)
    assert found.line == "libc.so.6, 3.0 MiB: no window can be huge: not aligned"
    assert found.mend == "run: mend /lib/libc.so.6"
    verdict = replace(judge(process(TINY), (TINY,), WINDOW), besides=(found,))
    assert verdict.line.splitlines()[-2:] == [f"  besides: {found.line}", f"    {found.mend}"]
    (shown,) = document([verdict], [], WINDOW)["processes"][0]["besides"]
    assert (shown["kind"], shown["name"], shown["text_bytes"]) == ("library", "libc.so.6", 3 * M - 4096)


def test_pages_of_64k_hide_their_runs() -> None:
    verdict = judge(process(APP), (APP,), WINDOW)
    assert text([verdict], WINDOW, verbose=False)[-1].endswith("all 3 windows are huge")
    assert text([verdict], 512 * M, verbose=False, base_page=64 << 10)[-1] == (
        "pages are 64.0 KiB here: runs of contiguous page table entries, below 512.0 MiB, cannot be seen; "
        "see: hugealign verify --kernels"
    )
    assert text([], 512 * M, verbose=False, base_page=64 << 10)[1:] == []


@pytest.mark.parametrize(
    ("huge", "words"), [(0, "0 of 3 windows are"), (1, "1 of 3 windows is"), (3, "all 3 windows are")]
)
def test_one_window_is_huge(huge: int, words: str) -> None:
    mapping = replace(APP, file_pmd=huge * 2 * M, pages=None)
    assert judge(process(mapping), (mapping,), WINDOW).line.splitlines()[0] == f"app[7]: {words} huge"
    data = rodata((mapping,), WINDOW)
    assert data.line.startswith(f"read-only data: {words.replace('all', '3 of')} huge (")


def test_read_only_data_never_stand_for_text() -> None:
    """All of them huge, none of the text: the verdict is that of the text."""
    constants = Mapping(0xA00000, 0xE00000, 0x800000, "/srv/app", permissions="r--p", rss=4 * M, file_pmd=4 * M)
    small = replace(APP, file_pmd=0)
    alone = judge(process(small), (small,), WINDOW)
    verdict = replace(alone, rodata=rodata((constants,), WINDOW))
    assert (verdict.met, verdict.windows, verdict.huge, verdict.line) == (False, 0, 0, alone.line)
    (found,) = document([verdict], [], WINDOW)["processes"]
    assert (found["windows_huge"], found["huge_bytes"]) == (0, 0)
    assert (found["rodata"]["windows_huge"], found["rodata"]["huge_bytes"]) == (2, 4 * M)
    assert text([verdict], WINDOW, verbose=False)[-1] == (
        "  read-only data: 2 of 2 windows are huge (4.0 MiB of 4.0 MiB)"
    )
