"""What ran of one build, in terms of another."""

import pytest

from hugealign.elf.blockmap import Block
from hugealign.ordering import carried as module
from hugealign.ordering.carried import carried
from hugealign.ordering.partners import BlockKeys
from hugealign.profile.match import Matched
from hugealign.profile.model import Flow
from hugealign.profile.ran import Ran
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
    """Two files that are none: their maps, and digests of the code of their blocks."""
    monkeypatch.setattr(module, "require_blocks", lambda path, _: {"old": OLD, "new": NEW}[path])
    monkeypatch.setattr(module, "block_digests", lambda path, *_: CODE[path])


def old(*names: str, flow: Flow) -> Ran:
    matched = Matched({0: 90, 1: 10}, {(0, 1, 0x12): 4}, total=110, found=100, foreign=7, complete=flow.complete)
    return Ran("old", functions(*names), matched, [("a.trace", "trace")], "instructions")


def flow(*pieces: tuple[int, int], complete: bool = True) -> Flow:
    found = Flow(complete=complete)
    for start, end in pieces:
        found.run(start, end, 10)
    return found


def test_blocks_are_those_of_the_new_build() -> None:
    seen = flow((0x1000, 0x1008), (0x1010, 0x1020), (0x1040, 0x1048))
    seen.jump(0x1007, 0x1010, 10)
    ran, found = carried(old("f", "g", flow=seen), "new", functions("f", "g"), seen)
    assert found.moved is not None
    (f, g) = sorted(found.moved.counted, key=lambda one: one.index)
    # Block 2 is 3 now, 3 is 4; nothing is known of the new one, which stays.
    assert {place: f.runs(place) for place in range(6)} == {0: 10, 1: 1, 2: 0, 3: 10, 4: 10, 5: 0}
    assert f.jumps == {(0, 3): 10, (3, 4): 10}
    assert (g.runs(0), g.runs(1)) == (10, 0)
    assert (found.before, found.ran, found.again) == ("old", 2, 2)
    assert (found.moved.seen, found.moved.again, found.moved.whole) == (4, 4, 0)
    assert (ran.binary, ran.sources, ran.unit) == ("new", [("a.trace", "trace")], "instructions")


def test_samples_and_calls_go_with_their_functions() -> None:
    """The call at 0x12 lies in block 2, which is 0x18 now; samples outside of functions still count."""
    seen = flow((0x1000, 0x1020), (0x1040, 0x1048))
    ran, _ = carried(old("f", "g", flow=seen), "new", functions("f", "g"), seen)
    assert ran.matched.samples == {0: 90, 1: 10}
    assert ran.matched.arcs == {(0, 1, 0x1A): 4}
    assert (ran.matched.total, ran.matched.found, ran.matched.foreign, ran.matched.complete) == (110, 100, 7, True)


def test_a_function_that_is_gone_is_missing() -> None:
    seen = flow((0x1000, 0x1020), (0x1040, 0x1048))
    ran, found = carried(old("f", "gone", flow=seen), "new", functions("f", "g"), seen)
    assert (ran.matched.samples, ran.matched.arcs) == ({0: 90}, {})
    assert (ran.matched.total, ran.matched.found) == (110, 90)
    assert ("gone", 10) in ran.matched.missing
    assert (found.ran, found.again) == (2, 1)
    assert found.moved is not None
    assert [one.index for one in found.moved.counted] == [0]


def test_a_function_that_changed_too_much_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CODE, "new", {0: [bytes([number]) for number in range(6)], 1: [b"g", b"h"]})
    monkeypatch.setattr(module, "_digested", lambda digests, _: [BlockKeys(digest, digest) for digest in digests])
    seen = flow((0x1008, 0x1028), (0x1040, 0x1048))
    ran, found = carried(old("f", "g", flow=seen), "new", functions("f", "g"), seen)
    assert found.moved is not None
    assert [one.index for one in found.moved.counted] == [1]
    assert found.moved.whole == 1
    assert ran.matched.samples == {0: 90, 1: 10}


def test_clangs_hashes_count_where_both_builds_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their lowest part, the offset, does not: it changes with everything before."""

    def hashed(blocks: list[Block], hashes: list[int], moved: int) -> list[Block]:
        pairs = zip(blocks, hashes, strict=True)
        return [Block(one.number, one.address, one.size, False, known << 16 | moved) for one, known in pairs]

    before = {0x1000: hashed(OLD[0x1000], [1, 9, 2, 9, 3], 5), 0x1040: OLD[0x1040]}
    after = {0x1000: hashed(NEW[0x1000], [1, 3, 2, 8, 7, 9], 6), 0x1040: NEW[0x1040]}
    monkeypatch.setattr(module, "require_blocks", lambda path, _: {"old": before, "new": after}[path])
    seen = flow((0x1010, 0x1018), (0x1020, 0x1028))
    _, found = carried(old("f", "g", flow=seen), "new", functions("f", "g"), seen)
    assert found.moved is not None
    (f,) = (one for one in found.moved.counted if one.index == 0)
    assert {place for place in range(6) if f.runs(place) == 10} == {1, 2}


def test_without_blocks_only_functions_are_carried() -> None:
    ran, found = carried(old("f", "g", flow=Flow()), "new", functions("g", "f"))
    assert ran.matched.samples == {1: 90, 0: 10}
    assert found.moved is None


def test_a_thin_profile_divides_nothing() -> None:
    """What counts is what the profile says of the old build."""
    seen = flow((0x1000, 0x1020), complete=False)
    _, found = carried(old("f", "g", flow=seen), "new", functions("f", "g"), seen)
    assert found.moved is not None
    assert not found.moved.counted
