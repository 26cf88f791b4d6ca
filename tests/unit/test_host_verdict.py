"""Judging a process: pure, on mappings made up here."""

import pytest

from hugealign.host.processes import Process
from hugealign.host.smaps import Mapping
from hugealign.host.verdict import judge

M = 1 << 20
WINDOW = 2 * M
APP = Mapping(0x400000, 0xA00000, 0x200000, "/srv/app", device=(8, 1), inode=5, rss=6 * M, file_pmd=6 * M)
SMALL = Mapping(0x400000, 0xA00000, 0x200000, "/srv/app", rss=6 * M, file_pmd=4 * M)
COLD = Mapping(0x400000, 0xA00000, 0x200000, "/srv/app", rss=4 * M, file_pmd=4 * M)
HEAD = Mapping(0x3F0000, 0xA00000, 0x1F0000, "/srv/app", rss=4 * M + (64 << 10), file_pmd=4 * M)
SHIFTED = Mapping(0x401000, 0xA01000, 0x200000, "/srv/a b", rss=6 * M)
TINY = Mapping(0x400000, 0x410000, 0x200000, "/srv/app", rss=M)
GONE = Mapping(0x400000, 0xA00000, 0x200000, "/srv/app", deleted=True, rss=6 * M)
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
        (JIT, "0 of 2 windows are huge", "code in anonymous memory is on small pages", ""),
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


def test_what_cannot_be_huge_is_not_counted_against_the_rest() -> None:
    verdict = judge(process(APP, LIBRARY), (APP, SHIFTED), WINDOW)
    assert (verdict.met, verdict.windows, verdict.possible, verdict.text) == (True, 3, 3, 12 * M)


def test_which_mappings_are_text() -> None:
    seen = process(APP, DATA, LIBRARY, JIT, VDSO)
    assert seen.text() == (APP,)
    assert seen.text(libraries=True) == (APP, LIBRARY)
    assert seen.text(libraries=True, anonymous=True) == (APP, LIBRARY, JIT)


def test_program_is_known_by_its_file_where_the_name_differs() -> None:
    renamed = Process(7, "app", "/chroot/srv/app", (0x801, 5), False, (APP, LIBRARY))
    assert renamed.text() == (APP,)
