"""The comparison with the peers: what it reads of a process, what it draws, and whether it owns up to a lost goal."""

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hugealign.elf.symbols import Functions
from lab.bench.peers import builds, figures, live, llvm, profiles, report
from lab.bench.peers.program import fingerprint, record, recorded
from tests.support import HUGEALIGN

SMAPS = """\
555500000000-555500001000 r--p 00000000 fe:00 1 /p/program
Rss:                   4 kB
FilePmdMapped:         0 kB
555500200000-555500800000 r-xp 00200000 fe:00 1 /p/program
Rss:                6144 kB
FilePmdMapped:      4096 kB
AnonHugePages:         0 kB
Shared_Hugetlb:        0 kB
555500800000-555500a00000 r-xp 00000000 00:1f 1 /dev/hugepages/x (deleted)
Rss:                   0 kB
Private_Hugetlb:    2048 kB
THPeligible:           0
VmFlags: rd ex
555500a00000-555500a01000 rw-p 00800000 fe:00 1 /p/program
Rss:                   4 kB
7f0000000000-7f0000200000 r-xp 00000000 fe:00 2 /lib/libc.so.6
Rss:                2048 kB
FilePmdMapped:      2048 kB
"""


def test_smaps() -> None:
    """A library's huge pages are not the program's; what took the place of its text is, whatever its name."""
    assert live.read(SMAPS, "/p/program") == live.Live(text=8192, huge=6144, resident=10248)


def document(**lines: dict[str, int]) -> dict[str, Any]:
    """Rows by name: ``peer``, ``peer_learned``, ``bare`` (ours), ``ours`` (with fill)."""
    known = {"peer": "", "peer_learned": "few", "bare": "few", "ours": "few"}
    rows = [
        {
            "title": name,
            "learned": known[name],
            "ours": name in ("bare", "ours"),
            "fill": name == "ours",
            "misses": {"cpu": line},
        }
        for name, line in lines.items()
    ]
    return {"rows": rows, "budgets": [0, 1], "cpus": ["cpu"], "sampled": {"few": 3}}


def test_a_peer_that_misses_less_is_told() -> None:
    result = document(
        peer={"0": 50, "1": 9}, peer_learned={"0": 60, "1": 80}, bare={"0": 40, "1": 30}, ours={"0": 40, "1": 10}
    )
    assert report.violations(result, "cpu", "few") == {1: (9, 10, "peer")}
    assert report.factors(result, "cpu", "few") == {0: 1.0, 1: 3.0}
    text = "\n".join(report._goal(result))
    assert "| cpu | few | 1 | at most 1.11 times as many: 10 to 9 of peer |  |" in text
    assert "| cpu | 1.0 | 3.0 |" in text


def test_budgets_are_told_in_order() -> None:
    result = document(peer={"1": 5, "0": 5}, bare={"1": 40, "0": 40}, ours={"1": 40, "0": 40})
    assert list(report.violations(result, "cpu", "few")) == [0, 1]


def test_within_a_budget_each_has_as_many_windows_as_are_best_for_it() -> None:
    """More huge windows than a processor has entries can be worse than few."""
    result = document(peer={"0": 50, "1": 9}, bare={"0": 30, "1": 60}, ours={"0": 8, "1": 20})
    assert report.violations(result, "cpu", "few") == {}
    assert report.factors(result, "cpu", "few") == {0: 30 / 8, 1: 30 / 8}
    result = document(peer={"0": 5, "1": 9}, bare={"0": 30, "1": 60}, ours={"0": 8, "1": 7})
    assert report.violations(result, "cpu", "few") == {0: (5, 8, "peer"), 1: (5, 7, "peer")}


def test_what_a_better_profile_would_give() -> None:
    """Where that is not ten times, no order of the samples is to be expected to be."""
    result = document(bare={"0": 40, "1": 30}, ours={"0": 40, "1": 10})
    result["rows"].append({**result["rows"][1], "learned": "all", "misses": {"cpu": {"0": 20, "1": 2}}})
    result["sampled"] = {"few": 3, "all": 9}
    assert report.factors(result, "cpu", "few", "all") == {0: 2.0, 1: 15.0}
    text = "\n".join(report._goal(result))
    assert text.index("| cpu | 1.0 | 3.0 |") < text.index("of the full profile") < text.index("| cpu | 2.0 | 15.0 |")


def test_what_moves_blocks_is_told_apart() -> None:
    result = document(peer={"0": 50, "1": 90}, bare={"0": 40, "1": 30}, ours={"0": 40, "1": 10})
    result["rows"][0]["title"] = "BOLT, blocks"
    result["rows"][0]["misses"]["cpu"]["1"] = 1
    assert report.violations(result, "cpu", "few") == {}
    assert report.violations(result, "cpu", "few", blocks=True) == {1: (1, 10, "BOLT, blocks")}
    assert "| cpu | few | none |  | 1 |" in "\n".join(report._goal(result))


def test_blocks_are_held_against_blocks() -> None:
    result = document(peer={"0": 50, "1": 9}, bare={"0": 40, "1": 30}, ours={"0": 40, "1": 10})
    assert "against hugealign's" not in "\n".join(report._table(result))
    result["rows"][0]["title"], result["rows"][1]["title"] = "BOLT, blocks", "hugealign, blocks"
    text = "\n".join(report._table(result))
    assert "| BOLT's blocks, full, against hugealign's | 1 | 1 | 1 | 0 |" in text
    assert "| BOLT's blocks, full, against whole functions | 0 | 0 | 0 | 0 |" in text  # of another profile
    result["rows"][1]["misses"]["cpu"]["1"] = 9
    assert "| BOLT's blocks, full, against hugealign's | 1 | 0 | 1 | 0 |" in "\n".join(report._table(result))


def test_equal_is_not_less() -> None:
    result = document(peer={"0": 40, "1": 10}, bare={"0": 40, "1": 30}, ours={"0": 40, "1": 10})
    assert report.violations(result, "cpu", "few") == {}
    assert "| cpu | few | none |  |  |" in "\n".join(report._goal(result))


def test_lines_of_one_budget_each_are_one() -> None:
    result = document(ours={"0": 4, "1": 3})
    result["rows"].append({**result["rows"][0], "misses": {"cpu": {"0": 5, "2": 1}}})
    assert report.series(result, "cpu") == {("ours", "few", True, True): {0: 4, 1: 3, 2: 1}}


@pytest.fixture
def functions() -> Functions:
    names = ["main", "helper", "helper", "odd name"]
    return Functions([16, 32, 64, 128], [8] * 4, names, ["", "a.c", "b.c", ""], {})


def test_samples_are_drawn_by_weight_and_the_same_every_time() -> None:
    spots = {(0, 0): 9000, (1, 4): 500, (1, 8): 499, (2, 0): 1}
    drawn = profiles.sampled(spots, 1000)
    assert drawn == profiles.sampled(spots, 1000)
    assert sum(drawn.samples.values()) == sum(drawn.spots.values()) == 1000
    assert drawn.samples[1] == drawn.spots[1, 4] + drawn.spots[1, 8]
    assert 850 < drawn.samples[0] < 950
    assert drawn.calls == {}


def test_forms(functions: Functions, tmp_path: Path) -> None:
    calls = {(0, 2, 4): 3, (0, 2, 6): 4, (0, 3, None): 1}
    learned = profiles.Learned("full", {0: 5, 2: 90, 3: 7}, calls, {(0, 4): 2, (0, 5): 3, (2, 0): 90, (3, 1): 7})
    written = profiles.for_hugealign(learned, functions, tmp_path / "a", "prog").read_text()
    assert written.splitlines()[1:-1] == [
        "build\t-\tprog",
        "c\tmain\t\t\todd name\t\t1",
        "c\tmain\t\t4\thelper\tb.c\t3",
        "c\tmain\t\t6\thelper\tb.c\t4",
        "f\t\thelper\tb.c\t\t90",
        "f\t\tmain\t\t\t5",
        "f\t\todd name\t\t\t7",
    ]
    assert profiles.call_graph(learned, functions, tmp_path / "b").read_text() == "main helper 7\n"
    listed = profiles.symbols(learned, functions, tmp_path / "c", ".text.{}").read_text()
    assert listed == ".text.helper\n.text.odd name\n.text.main\n"
    assert profiles.for_bolt(learned, functions, tmp_path / "d").read_text() == (
        "no_lbr\n1 main 4 2\n1 main 5 3\n1 helper/2 0 90\n1 odd\\ name 1 7\n"
    )


SAID = """\
BOLT-INFO: 200 out of 300 functions in the binary (66.7%) have non-empty execution profile
           1000 : taken branches
            400 : taken branches (-60.0%)
"""


def test_bolt_is_heard() -> None:
    assert builds._accepted(SAID) == (
        "200 functions profiled, 0 of them stale; taken branches 1,000 before, 400 after, by `-dyno-stats`"
    )
    stale = "BOLT-WARNING: 3 (1.5% of all profiled) functions have invalid (possibly stale) profile.\n"
    with pytest.raises(SystemExit, match="3 of 200 profiled functions for stale"):
        builds._accepted(SAID + stale)
    with pytest.raises(SystemExit, match="no profile"):
        builds._accepted("BOLT-INFO: nothing\n")


def test_what_was_made_is_kept_while_command_and_inputs_are_the_same(tmp_path: Path) -> None:
    source, made = tmp_path / "source", tmp_path / "made"
    source.write_text("one")
    mark = fingerprint(["compile"], [source])
    assert recorded(made, mark) is None  # it is not there
    record(made, mark, seconds=2.5)
    assert recorded(made, mark) is None
    made.touch()
    assert recorded(made, mark) == {"command": mark, "seconds": 2.5}
    assert recorded(made, fingerprint(["compile", "-g"], [source])) is None
    source.write_text("two")
    assert recorded(made, fingerprint(["compile"], [source])) is None


def test_our_own_files_are_inputs_of_our_command() -> None:
    assert len(fingerprint([str(HUGEALIGN), "gcc"], [])) > 100
    assert fingerprint(["gcc"], []) == ["gcc"]


MAP = """\
 .text          0x0000000000401000       0x25 /usr/lib/crt1.o
 .text._ZN4llvm5Value7getNameEv
                0x0000000000401030       0x1f /usr/lib/llvm-14/lib/libLLVMCore.a(Value.cpp.o)
 .text.empty    0x0000000000401050        0x0 a.o
                0x0000000000401030                llvm::Value::getName()
 .rodata        0x0000000000501000        0x8 b.o
"""


def test_a_map_says_where_sections_come_from(tmp_path: Path) -> None:
    (tmp_path / "map").write_text(MAP)
    result = list(llvm._sections(tmp_path / "map"))
    assert result == [
        (0x401000, 0x25, "/usr/lib/crt1.o"),
        (0x401030, 0x1F, "/usr/lib/llvm-14/lib/libLLVMCore.a(Value.cpp.o)"),
    ]
    member = llvm._MEMBER.search(result[1][2])
    assert member
    assert member.groups() == ("LLVMCore", "Value.cpp.o")
    assert llvm.stem(("LLVMCore", "Value.cpp.o")) == "LLVMCore-Value"
    assert not llvm._MEMBER.search(result[0][2])


def test_whose_member_is_asked_for_all_the_same() -> None:
    output = (
        "/usr/bin/ld.bfd: /usr/lib/llvm-14/lib/libLLVMCore.a(Dominators.cpp.o): in function `f()':\n(.text._Z1fv+0x0): "
        "multiple definition of `f()'; LLVMCore-Dominators.o:Dominators.cpp:(.text._Z1fv+0x0): first defined here\n"
    )
    assert llvm._DEFINED.findall(output) == ["LLVMCore-Dominators.o"]
    assert llvm._GENERATED.findall("a/X.inc: CUSTOM_COMMAND\nb/y.o: CXX_COMPILER\nc/z.h: CUSTOM_COMMAND\n") == [
        "a/X.inc",
        "c/z.h",
    ]


def test_the_fewest_members_with_a_share_are_compiled_again() -> None:
    counted = Counter(a=90, b=8, c=2)
    shares = (Fraction(n, 100) for n in (50, 90, 98, 100))
    assert [figures.most(counted, share) for share in shares] == [{"a"}, {"a"}, {"a", "b"}, {"a", "b", "c"}]


@pytest.mark.parametrize("count", [4, 32])
def test_libraries_lie_in_all_parts_of_the_sets_equally_often(count: int) -> None:
    """Each at other times: else all would lie beside each other in the same way."""
    places = [figures.spread(count, number) for number in range(1, 5)]
    for those in places:
        assert sorted(page * count // 32 for page in those) == list(range(count))
    assert len({tuple(page * count // 32 for page in those) for those in places}) > 1
