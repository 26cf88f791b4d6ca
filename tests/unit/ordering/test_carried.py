"""What ran of one build, in terms of another."""

from dataclasses import replace

import pytest

from hugealign.code.blockmap import Block
from hugealign.elf.symbols import Functions
from hugealign.errors import HugealignError
from hugealign.ordering import carried as module
from hugealign.ordering.blocks import kept_blocks
from hugealign.ordering.carried import BlockPair, carried, digested, offset_in
from hugealign.ordering.order import carry
from hugealign.ordering.partners import BlockKeys
from hugealign.profile.debugfiles import DebugFiles
from hugealign.profile.match import Build, Matched
from hugealign.profile.model import Flow
from hugealign.profile.ran import MismatchError, Ran
from tests.unit.ordering.test_blocks import functions

#: f of five blocks, of which 1 and 3 are alike; g of two.  In the new build f has a block more, and lies elsewhere.
OLD = {
    0x1000: [Block(number, 0x1000 + 8 * number, 8, False) for number in range(5)],
    0x1040: [Block(number, 0x1040 + 8 * number, 8, False) for number in range(2)],
}
NEW = {
    0x1000: [Block(number, 0x1000 + 8 * number, 8, False) for number in range(6)],
    0x1040: [Block(number, 0x1040 + 8 * number, 8, False) for number in range(2)],
}
CODE = {
    "old": {0: [b"a", b"z", b"b", b"z", b"c"], 1: [b"g", b"h"]},
    "new": {0: [b"a", b"n", b"z", b"b", b"z", b"c"], 1: [b"g", b"h"]},
}


@pytest.fixture(autouse=True)
def builds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files, by their contents: their maps, and digests of the code of their blocks."""
    monkeypatch.setattr(module, "require_blocks", lambda path, _: {"old": OLD, "new": NEW}[path])
    monkeypatch.setattr(module, "block_digests", lambda path, *_: CODE[path])


def old(*names: str, flow: Flow) -> Ran:
    matched = Matched({0: 90, 1: 10}, {(0, 1, 0x12): 4}, total=110, hits=100, foreign=7, complete=flow.complete)
    return Ran("old", functions(*names), matched, [("a.trace", "trace")], "instructions")


def flow(*pieces: tuple[int, int], complete: bool = True) -> Flow:
    result = Flow(complete=complete)
    for start, end in pieces:
        result.run(start, end, 10)
    return result


def test_blocks_are_those_of_the_new_build() -> None:
    seen = flow((0x1000, 0x1008), (0x1010, 0x1020), (0x1040, 0x1048))
    seen.jump(0x1007, 0x1010, 10)
    ran, result = carried(old("f", "g", flow=seen), "new", functions("f", "g"), seen)
    assert result.moved is not None
    (f, g) = sorted(result.moved.counted, key=lambda one: one.index)
    # Block 2 is 3 now, 3 is 4; nothing is known of the new one, which stays.
    assert {place: f.runs(place) for place in range(6)} == {0: 10, 1: 1, 2: 0, 3: 10, 4: 10, 5: 0}
    assert f.jumps == {(0, 3): 10, (3, 4): 10}
    assert (g.runs(0), g.runs(1)) == (10, 0)
    assert (result.before, result.ran, result.kept) == ("old", 2, 2)
    assert (result.moved.ran, result.moved.kept, result.moved.whole) == (4, 4, 0)
    assert (ran.binary, ran.sources, ran.unit) == ("new", [("a.trace", "trace")], "instructions")


def test_samples_and_calls_go_with_their_functions() -> None:
    """The call at 0x12 lies in block 2, which is 0x18 now; samples outside of functions still count."""
    seen = flow((0x1000, 0x1020), (0x1040, 0x1048))
    ran, _ = carried(old("f", "g", flow=seen), "new", functions("f", "g"), seen)
    assert ran.matched.samples == {0: 90, 1: 10}
    assert ran.matched.arcs == {(0, 1, 0x1A): 4}
    assert (ran.matched.total, ran.matched.hits, ran.matched.foreign, ran.matched.complete) == (110, 100, 7, True)


def test_a_function_that_is_gone_is_missing() -> None:
    seen = flow((0x1000, 0x1020), (0x1040, 0x1048))
    ran, result = carried(old("f", "gone", flow=seen), "new", functions("f", "g"), seen)
    assert (ran.matched.samples, ran.matched.arcs) == ({0: 90}, {})
    assert (ran.matched.total, ran.matched.hits) == (110, 90)
    assert ("gone", 10) in ran.matched.missing
    assert (result.ran, result.kept) == (2, 1)
    assert result.moved is not None
    assert [item.index for item in result.moved.counted] == [0]


def test_a_function_that_changed_too_much_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the code of its blocks is there again nor their sizes."""
    monkeypatch.setitem(CODE, "new", {0: [bytes([number]) for number in range(6)], 1: [b"g", b"h"]})
    monkeypatch.setitem(NEW, 0x1000, [Block(number, 0x1000 + 9 * number, 9, False) for number in range(6)])
    seen = flow((0x1008, 0x1028), (0x1040, 0x1048))
    ran, result = carried(old("f", "g", flow=seen), "new", functions("f", "g"), seen)
    assert result.moved is not None
    assert [item.index for item in result.moved.counted] == [1]
    assert result.moved.whole == 1
    assert ran.matched.samples == {0: 90, 1: 10}


def test_clangs_hashes_count_where_both_builds_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their lowest part, the offset, does not: it changes with everything before."""

    def hashed(blocks: list[Block], hashes: list[int], moved: int) -> list[Block]:
        pairs = zip(blocks, hashes, strict=True)
        return [Block(item.number, item.address, item.size, False, known << 16 | moved) for item, known in pairs]

    before = {0x1000: hashed(OLD[0x1000], [1, 9, 2, 9, 3], 5), 0x1040: OLD[0x1040]}
    after = {0x1000: hashed(NEW[0x1000], [1, 3, 2, 8, 7, 9], 6), 0x1040: NEW[0x1040]}
    monkeypatch.setattr(module, "require_blocks", lambda path, _: {"old": before, "new": after}[path])
    seen = flow((0x1010, 0x1018), (0x1020, 0x1028))
    _, result = carried(old("f", "g", flow=seen), "new", functions("f", "g"), seen)
    assert result.moved is not None
    (f,) = (item for item in result.moved.counted if item.index == 0)
    assert {place for place in range(6) if f.runs(place) == 10} == {1, 2}


def test_without_blocks_only_functions_are_carried() -> None:
    ran, result = carried(old("f", "g", flow=Flow()), "new", functions("g", "f"))
    assert ran.matched.samples == {1: 90, 0: 10}
    assert result.moved is None


def test_a_thin_profile_divides_nothing() -> None:
    """What counts is what the profile says of the old build."""
    seen = flow((0x1000, 0x1020), complete=False)
    ran, result = carried(old("f", "g", flow=seen), "new", functions("f", "g"), seen)
    assert result.moved is not None
    assert not result.moved.counted
    assert not ran.matched.complete


def local(*files: str, names: tuple[str, ...] = ("f", "f")) -> Functions:
    """Functions, of which some can have one name, of these source files."""
    return replace(functions(*names), files=list(files), sizes=[0x18, 0x18])


#: Of both builds.
ALIKE = {start: [Block(number, start + 8 * number, 8, False) for number in range(3)] for start in (0x1000, 0x1040)}


@pytest.fixture
def alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both builds are the same."""
    monkeypatch.setattr(module, "require_blocks", lambda *_: ALIKE)
    code = {0: [b"a", b"b", b"c"], 1: [b"g", b"h", b"i"]}
    monkeypatch.setattr(module, "block_digests", lambda _, __, blocks: {index: code[index] for index in blocks})


@pytest.mark.usefixtures("alike")
def test_local_functions_of_one_name_and_file_keep_their_order() -> None:
    """Those of a/x.c and b/x.c, whose directories a symbol table does not have."""
    seen = flow((0x1000, 0x1008), (0x1040, 0x1048), (0x1048, 0x1050))
    ran = replace(old("f", "f", flow=seen), functions=local("a/x.c", "b/x.c"))
    repeated, result = carried(ran, "new", local("x.c", "x.c"), seen)
    assert result.moved is not None
    assert repeated.matched.samples == {0: 90, 1: 10}
    assert {item.index: [item.runs(place) for place in range(3)] for item in result.moved.counted} == {
        0: [10, 0, 0],
        1: [10, 10, 0],
    }
    assert result.moved.whole == 0
    # By names alone clang's list would not tell one from another that was not there.
    assert not kept_blocks(seen, ALIKE, repeated.functions, repeated.matched, counted=result.moved.counted)
    assert kept_blocks(seen, ALIKE, ran.functions, ran.matched)


@pytest.mark.usefixtures("alike")
@pytest.mark.parametrize("other", [0, 1])
def test_a_function_of_the_same_name_and_file_counts_before_a_hotter_one(other: int) -> None:
    """One of two is gone; the other has not changed."""
    seen = flow((0x1000, 0x1008), (0x1040, 0x1048))
    seen.run(ALIKE[0x1000 + 0x40 * other][1].address, ALIKE[0x1000 + 0x40 * other][2].address, 1000)
    files = ["y.c", "y.c"]
    files[other] = "x.c"
    ran = replace(old("f", "f", flow=seen), functions=local(*files))
    new = Functions([0x1000], [0x38], ["f"], ["y.c"], {"f": [0]})
    _, result = carried(ran, "new", new, seen)
    assert result.moved is not None
    (f,) = result.moved.counted
    assert f.runs(1) == 0
    assert result.moved.whole == 0


@pytest.mark.usefixtures("alike")
@pytest.mark.parametrize("hotter", [0, 1])
def test_of_two_clones_the_hotter_one_counts(hotter: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are one function in the new build; neither has changed too much."""
    code = [b"a", b"b", b"c"]
    monkeypatch.setattr(module, "block_digests", lambda _, __, blocks: dict.fromkeys(blocks, code))
    seen = flow((0x1000, 0x1008), (0x1040, 0x1048))
    start = 0x1000 + 0x40 * hotter
    seen.run(start, start + 8, 1000)
    seen.run(start + 0x10, start + 0x18, 7)
    names = ("f.isra.0", "f.constprop.0")
    ran = replace(old(*names, flow=seen), functions=local("", "", names=names))
    _, result = carried(ran, "new", Functions([0x1000], [0x38], ["f"], [""], {"f": [0]}), seen)
    assert result.moved is not None
    (f,) = result.moved.counted
    assert [f.runs(place) for place in range(3)] == [1010, 0, 7]
    assert result.moved.whole == 0


@pytest.mark.usefixtures("alike")
def test_blocks_that_were_entered_in_their_middle_stay() -> None:
    seen = flow((0x1000, 0x1008), (0x1014, 0x1018))
    _, result = carried(old("f", "g", flow=seen), "new", functions("f", "g"), seen)
    assert result.moved is not None
    (f,) = (item for item in result.moved.counted if item.index == 0)
    assert [f.runs(place) for place in range(3)] == [10, 0, 10]


@pytest.mark.parametrize("changed", [NEW[0x1000][:1], NEW[0x1000][1:], [*NEW[0x1000], Block(9, 0x1038, 8, False)]])
def test_what_cannot_be_divided_in_the_new_build(changed: list[Block], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a single block, has no entry, or the map is of another file."""
    maps = {"old": OLD, "new": {**NEW, 0x1000: changed}}
    monkeypatch.setattr(module, "require_blocks", lambda path, _: maps[path])
    seen = flow((0x1000, 0x1020), (0x1040, 0x1048))
    _, result = carried(old("f", "g", flow=seen), "new", functions("f", "g"), seen)
    assert result.moved is not None
    assert [item.index for item in result.moved.counted] == [1]
    assert result.moved.whole == 1


def test_a_function_without_a_name_is_not_found() -> None:
    seen = flow((0x1000, 0x1020), (0x1040, 0x1048))
    new = functions("f", "")
    ran, result = carried(old("f", "", flow=seen), "new", replace(new, by_name={"f": [0], "": [1]}), seen)
    assert (ran.matched.samples[0], result.ran, result.kept) == (90, 2, 1)


def test_code_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one function: it has not changed.  Of all, as in a debug file: an error, for either build."""
    seen = flow((0x1000, 0x1020), (0x1040, 0x1048))
    for build in ("old", "new"):
        with monkeypatch.context() as here:
            here.setitem(CODE, build, {1: [b"g", b"h"]})
            _, result = carried(old("f", "g", flow=seen), "new", functions("f", "g"), seen)
            assert result.moved is not None
            assert [item.index for item in result.moved.counted] == [1]
            assert result.moved.whole == 0
            here.setitem(CODE, build, {})
            with pytest.raises(HugealignError, match=f"^{build}: has no code to recognise blocks by"):
                carried(old("f", "g", flow=seen), "new", functions("f", "g"), seen)


def test_hashes_of_one_build_alone_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = (
        {start: [replace(block, hash=7 + block.number << 16) for block in blocks] for start, blocks in maps.items()}
        for maps in (OLD, NEW)
    )
    for maps in ({"old": before, "new": NEW}, {"old": OLD, "new": after}):
        monkeypatch.setattr(module, "require_blocks", lambda path, _, maps=maps: maps[path])
        seen = flow((0x1000, 0x1020), (0x1040, 0x1048))
        _, result = carried(old("f", "g", flow=seen), "new", functions("f", "g"), seen)
        assert result.moved is not None
        assert (result.moved.ran, result.moved.kept) == (5, 5)


def test_hashes_tell_operands_apart_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of the same instructions, in another order, whose operands differ: these are recognised."""
    old_hashes, new_hashes = ([0x1_0001, 0x5_0002, 0x6_0002], [0x1_0001, 0x6_0002, 0x5_0002])
    maps = {
        name: {start: [replace(block, hash=known << 16) for block, known in zip(blocks, hashes, strict=True)]}
        for name, hashes in (("old", old_hashes), ("new", new_hashes))
        for start, blocks in ((0x1000, ALIKE[0x1000]),)
    }
    monkeypatch.setattr(module, "require_blocks", lambda path, _: maps[path])
    seen = flow((0x1000, 0x1008), (0x1008, 0x1010))
    _, result = carried(old("f", "g", flow=seen), "new", functions("f", "g"), seen)
    assert result.moved is not None
    (f,) = result.moved.counted
    assert [f.runs(place) for place in range(3)] == [10, 0, 10]


def test_the_size_is_the_looser_key() -> None:
    two = [Block(0, 0x1000, 8, False), Block(1, 0x1008, 5, False)]
    assert digested([b"a", b"b"], two) == [BlockKeys(b"a", 8), BlockKeys(b"b", 5)]


def test_where_a_byte_lies_in_the_new_build() -> None:
    pair = BlockPair(OLD[0x1000], [Block(0, 0x2000, 8, False), Block(1, 0x2008, 4, False)], {0: 0, 2: 1})
    assert [offset_in(pair, at, 0x1000, 0x2000) for at in (0, 7, 8, 0x10, 0x13, 0x17, 0x18)] == [
        0, 7, None, 8, 11, 11, None,
    ]  # fmt: skip


def test_the_builds_of_a_profile_stay() -> None:
    """The report has a line for each."""
    ran = old("f", "g", flow=Flow())
    builds = [Build("ab", 100, 90, 0, 0.0)]
    repeated, _ = carried(replace(ran, matched=replace(ran.matched, builds=builds)), "new", functions("f", "g"))
    assert repeated.matched.builds == builds


def test_nothing_is_there_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said before anything of blocks."""
    monkeypatch.setattr(module, "require_blocks", lambda *_: 1 / 0)
    seen = flow((0x1000, 0x1020))
    with pytest.raises(MismatchError, match="no function that ran in old is in new"):
        carried(old("f", "g", flow=seen), "new", functions("h", "i"), seen)


def test_too_little_is_there_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 110 samples 10; to name the binary that ran does not help, because it was named."""
    monkeypatch.setattr("hugealign.ordering.order.functions_of", lambda _: functions("h", "g"))
    warned: list[str] = []
    ran = old("f", "g", flow=Flow())
    with pytest.raises(MismatchError, match=r"^only 9% .* \(not: f, \(no function\)\); too little of the program"):
        carry(ran, "new", DebugFiles([]), None, False, warned.append)
    assert not warned
    repeated, _ = carry(ran, "new", DebugFiles([]), None, True, warned.append)
    assert repeated.matched.samples == {1: 10}
    assert len(warned) == 1
