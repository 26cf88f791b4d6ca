"""From what ran to the blocks of functions: which stay, what is counted, and where an offset comes to lie."""

import random
from dataclasses import replace

import pytest

from hugealign.code.blockmap import Block
from hugealign.code.calls import Calls
from hugealign.elf.symbols import Functions
from hugealign.orderfile import FILL, HOT
from hugealign.ordering import knapsack, unseen
from hugealign.ordering.blockruns import BlockRuns, _Places, count
from hugealign.ordering.blocks import divided, kept_blocks, share_names
from hugealign.ordering.compose import compose
from hugealign.ordering.problem import Problem, of_sorted
from hugealign.ordering.sorting import Sorted
from hugealign.ordering.windows import WindowRoom
from hugealign.profile.match import Matched
from hugealign.profile.model import Flow

#: f: its entry, what seldom happens, the rest, and where exceptions land; g is another function behind it.
MAP = [Block(0, 0x1000, 16, False), Block(2, 0x1010, 16, False), Block(1, 0x1020, 16, False), Block(5, 0x1030, 8, True)]
OTHER = [Block(0, 0x1040, 4, False), Block(1, 0x1044, 12, False)]


def functions(*names: str) -> Functions:
    by_name: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        by_name.setdefault(name, []).append(index)
    return Functions([0x1000, 0x1040], [0x38, 0x10], list(names), ["", ""], by_name)


def flow(*runs: tuple[int, int], complete: bool = True) -> Flow:
    result = Flow(complete)
    for start, end in runs:
        result.run(start, end, 10)
    return result


def test_what_did_not_run_leaves() -> None:
    seen = flow((0x1000, 0x1010), (0x1020, 0x1030))
    seen.jump(0x100F, 0x1020, 10)
    result = kept_blocks(seen, {0x1000: MAP, 0x1040: OTHER}, functions("f", "g"), Matched({0: 100, 1: 100}))
    assert list(result) == [0]  # nothing is known of g but that it ran
    item = result[0]
    assert (item.numbers, item.size) == ((0, 1), 32)
    assert [item.at(offset) for offset in (0, 15, 16, 0x20, 0x2F, 0x30)] == [0, 15, None, 16, 31, None]


def test_a_run_through_blocks_counts_them_all() -> None:
    result = kept_blocks(flow((0x1004, 0x1021)), {0x1000: MAP}, functions("f", "g"), Matched({0: 1}))
    assert result[0].numbers == (0, 2, 1)


#: As MAP, but that four bytes align what is at 0x1024.
ALIGNED = [*MAP[:2], Block(1, 0x1024, 12, False), MAP[3]]


@pytest.mark.parametrize("way", ["run", "jump", "return"])
def test_who_comes_to_what_aligns_a_block_comes_to_the_block(way: str) -> None:
    """A recorder may have a piece of code of its own begin there."""
    seen = flow((0x1000, 0x1010), (0x1020, 0x1030))
    if way == "jump":
        seen.jump(0x100F, 0x1020, 10)
    if way == "return":
        seen.back(0x1020, 10)
        seen.run(0x1010, 0x1020, 10)
    result = kept_blocks(seen, {0x1000: ALIGNED}, functions("f", "g"), Matched({0: 1}))[0]
    assert 1 in result.numbers
    seen = flow()
    seen.run(0x1020, 0x1030, 7)
    seen.jump(0x100F, 0x1020, 3)
    seen.back(0x1020, 2)
    (counted,) = count(seen, [(0, ALIGNED)])
    assert (counted.begun, counted.entered, counted.jumps) == ({2: 7}, {}, {(0, 2): 3, (1, 2): 2})


def test_of_blocks_at_one_address_all_but_the_last_are_empty() -> None:
    """Whatever their numbers."""
    for number in (3, 0):
        result = [Block(2, 0x1010, 16, False), Block(1, 0x1020, 16, False)]
        result.insert(number, Block(number, 0x1020, 0, False))
        seen = flow()
        seen.run(0x1020, 0x1030, 7)
        (item,) = count(seen, [(0, result)])
        assert {result[place].number for place in item.begun} == {1}


def test_what_aligns_a_block_moves_with_it() -> None:
    result = kept_blocks(
        flow((0x1000, 0x1010), (0x1024, 0x1030)), {0x1000: ALIGNED}, functions("f", "g"), Matched({0: 1})
    )[0]
    assert (result.numbers, result.size) == ((0, 1), 32)
    assert [result.at(offset) for offset in (0x1F, 0x20, 0x24, 0x2F, 0x30)] == [None, 16, 20, 31, None]
    assert result.leaves == 0x38 - 32


def test_single_addresses_leave_the_order_to_the_compiler() -> None:
    """Not to heat alone: each block would have to jump to the next."""
    seen = Flow(complete=True)
    for block, times in zip(MAP[:3], (5, 7, 9), strict=True):
        seen.run(block.address, block.address + 1, times)
    assert kept_blocks(seen, {0x1000: MAP}, functions("f", "g"), Matched({0: 1}))[0].numbers == (0, 2, 1)
    seen.jump(0x100F, 0x1020, 5)
    assert kept_blocks(seen, {0x1000: MAP}, functions("f", "g"), Matched({0: 1}))[0].numbers == (0, 1, 2)


def test_many_long_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is in proportion to runs and blocks, not to their product."""
    followed: list[object] = []
    monkeypatch.setattr(BlockRuns, "follow", lambda _, *more: followed.append(more))
    many = [Block(number, 0x1000 + number, 1, False) for number in range(1000)]
    seen = flow(*((0x1000 + start, 0x1000 + 1000) for start in range(1000)))
    (item,) = count(seen, [(0, many)])
    assert len(followed) == 999
    assert [item.runs(place) for place in (0, 1, 999)] == [10, 20, 10000]


@pytest.mark.parametrize("seed", range(20))
def test_runs_are_counted_block_by_block(seed: int) -> None:
    """Of two functions that can lie on each other, with empty blocks and alignment."""
    draw = random.Random(seed)
    sides = []
    for start in (0x1000, draw.choice((0x1008, 0x1040))):
        at, made = start, []
        for number in range(6):
            at += draw.choice((0, 0, 2))
            made.append(Block(number, at, draw.choice((0, 4, 8)), False))
            at += made[-1].size
        sides.append(made)
    seen = flow()
    for _ in range(12):
        start = draw.randrange(0xFF0, 0x1080)
        seen.run(start, start + draw.randrange(0, 0x60), draw.randrange(1, 100))
    expected = [BlockRuns(0, sides[0]), BlockRuns(1, sides[1])]
    places = _Places(expected)
    for (start, end), times in seen.runs.items():
        result = places.at(start)
        if not result:
            continue
        item, k, first = result
        into = item.begun if start <= item.blocks[k].address else item.entered
        into[k] = into.get(k, 0) + times if into is item.begun else max(into.get(k, 0), times)
        for at in range(first + 1, len(places.starts)):
            n, following = places.rows[at]
            if places.starts[at] >= end or expected[n] is not item:
                break
            item.follow(k, following, times)
            item.begun[following] = item.begun.get(following, 0) + times
            k = following
    assert count(seen, [(0, sides[0]), (1, sides[1])]) == expected


def test_a_run_ends_with_its_function() -> None:
    result = kept_blocks(
        flow((0x1020, 0x1050)), {0x1000: MAP, 0x1040: OTHER}, functions("f", "g"), Matched({0: 1, 1: 1})
    )
    assert set(result) == {0}


def test_all_landing_pads_stay_or_none() -> None:
    more = [*MAP[:3], Block(5, 0x1030, 4, True), Block(6, 0x1034, 4, True)]
    seen = flow((0x1000, 0x1010), (0x1030, 0x1034))
    assert kept_blocks(seen, {0x1000: more}, functions("f", "g"), Matched({0: 1}))[0].numbers == (0,)
    seen.run(0x1034, 0x1038, 1)
    assert set(kept_blocks(seen, {0x1000: more}, functions("f", "g"), Matched({0: 1}))[0].numbers) == {0, 5, 6}


@pytest.mark.parametrize(
    ("names", "results"),
    [
        (("a b", "g"), MAP),
        (("f", "g"), MAP[1:]),  # the entry is missing
        (("f", "g"), [*MAP, Block(9, 0x1038, 16, False)]),  # of another build: it reaches behind the function
        (("f", "g"), MAP[:1]),
        (("f", "g"), [*MAP[:2], Block(2, 0x1020, 16, False)]),  # an order file with a number twice would be refused
    ],
)
def test_left_whole(names: tuple[str, str], results: list[Block]) -> None:
    assert not kept_blocks(flow((0x1000, 0x1030)), {0x1000: results}, functions(*names), Matched({0: 1}))


def test_functions_of_one_name_keep_the_same() -> None:
    """Clang's list does not tell them apart: what ran in one stays in the other."""
    names, both, runs = functions("f", "f"), {0x1000: MAP, 0x1040: OTHER}, [(0x1010, 0x1020), (0x1040, 0x1050)]
    result = kept_blocks(flow((0x1000, 0x1010), *runs), both, names, Matched({0: 1, 1: 2}))
    assert {index: (item.numbers, item.size) for index, item in result.items()} == {
        0: ((0, 1, 2), 48),
        1: ((0, 1, 2), 16),
    }
    alone = kept_blocks(flow((0x1000, 0x1010)), {0x1000: MAP}, names, Matched({0: 1}))
    assert alone[0].numbers == (0,)  # what did not run may be divided
    single = kept_blocks(flow((0x1000, 0x1010)), {0x1000: MAP, 0x1040: OTHER[:1]}, names, Matched({0: 1, 1: 1}))
    assert list(single) == [0]  # a single block stays anyhow


def test_functions_of_one_name_stay_whole() -> None:
    """If one of them ran and has no map, or could have run without being seen."""
    names = functions("f", "f")
    assert not kept_blocks(flow((0x1000, 0x1010)), {0x1000: MAP}, names, Matched({0: 1, 1: 1}))
    seen = Flow()
    seen.run(0x1004, 0x1005, 1_000_000)
    assert not kept_blocks(seen, {0x1000: MAP}, names, Matched({0: 1_000_000}))
    assert kept_blocks(seen, {0x1000: MAP}, functions("f", "g"), Matched({0: 1_000_000}))


def test_functions_of_one_name_stay_whole_if_the_profile_is_of_another_build() -> None:
    """However complete: a function that is new can have the name, and be hot."""
    seen = flow((0x1000, 0x1010))
    names, counted = functions("f", "f"), count(seen, [(0, MAP)])
    assert not kept_blocks(seen, {0x1000: MAP, 0x1040: OTHER}, names, Matched({0: 1}), counted=counted)
    assert kept_blocks(seen, {0x1000: MAP, 0x1040: OTHER}, functions("f", "g"), Matched({0: 1}), counted=counted)


def test_functions_of_one_name_are_told_apart_by_units() -> None:
    """Each by its own record, even where the record of others is not complete; all of a name, or none."""
    names, both = functions("f", "f"), {0x1000: MAP, 0x1040: OTHER}
    names.files[:] = ["a.c", "b.c"]
    assert share_names(both, names, Matched({0: 1, 1: 2}))
    assert not share_names(both, functions("f", "g"), Matched({0: 1, 1: 2}))
    seen, matched = flow((0x1000, 0x1010), (0x1010, 0x1020), (0x1040, 0x1044)), Matched({0: 1, 1: 2})
    units = {"a.c": "src/a.c", "b.c": "src/b.c"}
    result = kept_blocks(seen, both, names, matched, units)
    assert {index: (item.numbers, item.unit) for index, item in result.items()} == {
        0: ((0, 2), "src/a.c"),
        1: ((0,), "src/b.c"),
    }
    for less in ({"a.c": "src/a.c"}, {"a.c": "src/a.c", "b.c": "b c"}, {}):
        assert [(item.numbers, item.unit) for item in kept_blocks(seen, both, names, matched, less).values()] == [
            ((0, 2), "")
        ] * 2
    few = Flow()
    few.run(0x1004, 0x1005, 1_000_000)
    alone = kept_blocks(few, {0x1000: MAP}, names, Matched({0: 1_000_000}), units)
    assert [(item.numbers, item.unit) for item in alone.values()] == [((0,), "src/a.c")]


def test_one_line_for_what_leaves_functions_of_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it has a place, behind them, or none, or one of them only."""
    monkeypatch.setattr(knapsack, "likely", lambda *_: {})
    result = functions("f", "f")
    result.files[:] = ["a.c", "b.c"]
    more = [*OTHER, Block(2, 0x1050, 12, False)]
    result.sizes[1] = 0x1C
    matched = Matched({0: 2, 1: 1})
    both = kept_blocks(flow((0x1000, 0x1010), (0x1040, 0x1044)), {0x1000: MAP, 0x1040: more}, result, matched)
    small = replace(divided(result, both), text=1 << 20)
    for parts in ({0: 2, 1: 3}, {0: 2}, {}):
        problem = Problem(matched, small, WindowRoom(4096, 1), fill=Calls("/nowhere", result), parts=parts)
        plan = of_sorted(problem, Sorted([0, 1]))
        assert {2, 3} & {placed.index for placed in plan.placed} == set(parts.values())
        entries = compose(plan, matched, small, {}, both).entries
        assert [(entry.name, entry.file) for entry in entries if entry.blocks] == [("f", "a.c"), ("f", "b.c")]
        assert [entry.name for entry in entries if not entry.blocks] == ["f.cold"]


def test_samples_have_to_be_enough() -> None:
    """What was never seen runs about as often as what was seen once: a ten-thousandth of the time at most."""
    for times, seen_once, enough in ((9_999, 0, False), (10_000, 0, True), (10_000, 1, False), (19_999, 1, True)):
        seen = Flow()
        seen.run(0x1004, 0x1005, times)
        if seen_once:
            seen.run(0x1020, 0x1021, seen_once)
        result = kept_blocks(seen, {0x1000: MAP}, functions("f", "g"), Matched({0: times}))
        assert bool(result) == enough


def test_a_function_that_is_only_entered_stays_whole() -> None:
    """As one that BOLT does not instrument: calls lead into it, and nothing is recorded of its inside."""
    seen = Flow()
    seen.run(0x1000, 0x1001, 10**6)
    seen.run(0x1040, 0x1041, 10**6)
    seen.run(0x1043, 0x1044, 10**6)  # g leaves its first block
    both = {0x1000: MAP, 0x1040: OTHER}
    assert list(kept_blocks(seen, both, functions("f", "g"), Matched({0: 1, 1: 1}))) == [1]
    seen.complete = True
    assert list(kept_blocks(seen, both, functions("f", "g"), Matched({0: 1, 1: 1}))) == [0, 1]


@pytest.mark.parametrize(("broken", "few"), [(0, True), (1, True), (2, False)])
def test_exact_counts_need_no_thousands(broken: int, few: bool) -> None:
    """Blocks that are left as often as entered tell executions from samples; f, with fewer, is split in the former."""
    chain = [Block(number, 0x2000 + 16 * number, 16, False) for number in range(12)]
    names = Functions([0x1000, 0x2000], [0x38, 12 * 16], ["f", "g"], ["", ""], {"f": [0], "g": [1]})
    seen = Flow()
    for number in range(11):
        count = 20_000 + (number in range(0, 2 * broken, 2))
        source, target = chain[number].address + 15, chain[number + 1].address
        seen.run(source, source + 1, count)
        seen.run(target, target + 1, count)
        seen.jump(source, target, count)
    seen.run(0x100F, 0x1010, 7)
    seen.run(0x1020, 0x1021, 7)
    seen.jump(0x100F, 0x1020, 7)
    result = kept_blocks(seen, {0x1000: MAP, 0x2000: chain}, names, Matched({0: 1, 1: 1}))
    assert (0 in result, 1 in result) == (few, True)


def test_what_leaves_lies_behind_what_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    """As functions of their own, before what is only likely; that gets the room that they leave."""
    result = functions("f", "g")
    item = kept_blocks(flow((0x1000, 0x1010)), {0x1000: MAP}, result, Matched({0: 100, 1: 5}))
    small = replace(divided(result, item), text=1 << 20)
    assert (small.names, small.sizes) == (["f", "g", "f.cold"], [16, 16, 0x28])
    rooms: list[int] = []

    def likely(_: object, __: object, room: int, *___: object) -> dict[int, float]:
        rooms.append(room)
        return {}

    monkeypatch.setattr(knapsack, "likely", likely)
    matched = Matched({0: 100, 1: 5}, {(0, 1, None): 9}, complete=True)
    problem = Problem(matched, small, WindowRoom(4096, 1), fill=Calls("/nowhere", result), parts={0: 2})
    made = of_sorted(problem, Sorted([0, 1]))
    assert [(placed.index, placed.kind) for placed in made.placed] == [(0, HOT), (1, HOT), (2, FILL)]
    assert rooms == [4096 - 32 - 0x28]
    order = compose(made, matched, small, {}, item)
    assert [(entry.name, entry.blocks) for entry in order.entries] == [("f", (0,)), ("g", ()), ("f.cold", ())]
    bare = of_sorted(Problem(matched, small, WindowRoom(4096, 1), parts={0: 2}), Sorted([0, 1]))
    assert [entry.name for entry in compose(bare, matched, small, {}, item).entries] == ["f", "g", "f.cold"]


def test_the_smallest_of_what_leaves_gets_the_room_of_the_huge_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere it lies in the order of the functions."""
    sizes = [100, 100, 100, 3000, 40, 900]
    program = Functions([n << 12 for n in range(6)], sizes, ["a", "b", "c", "a.cold", "b.cold", "c.cold"], [""] * 6, {})
    matched = Matched({0: 9, 1: 8, 2: 7}, {(0, 1, None): 9}, complete=True)
    fill, parts = Calls("/nowhere", program), {0: 3, 1: 4, 2: 5}

    def behind(windows: int, size: int) -> list[int]:
        problem = Problem(matched, replace(program, text=1 << 20), WindowRoom(size, windows), fill=fill, parts=parts)
        return [placed.index for placed in of_sorted(problem, Sorted([0, 1, 2])).placed][3:]

    assert behind(1, 8192) == [3, 4, 5]  # all have room
    assert behind(1, 2048) == [4, 5, 3]
    assert behind(1, 512) == [4, 3, 5]
    # Whether neighbours run together is a question of functions.
    monkeypatch.setattr(unseen, "scattered", lambda _, count: {3: False}[count])
    assert behind(0, 4096) == [3, 4, 5]


def test_huge_windows_are_filled_in_the_linker_s_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the last window of what ran, that is: this is filled up with the smallest of what leaves functions."""
    sizes = [100, 100, 200, 100, 960, 40, 800]
    names = ["a", "b", "unseen", "c", "a.cold", "b.cold", "c.cold"]
    program = Functions([n << 12 for n in range(7)], sizes, names, [""] * 7, {})
    matched = Matched({0: 9, 1: 8, 3: 7}, {(0, 1, None): 9}, complete=True)
    monkeypatch.setattr(knapsack, "likely", lambda *_: {2: 0.5})
    fill, parts = Calls("/nowhere", program), {0: 4, 1: 5, 3: 6}

    def behind(windows: int) -> list[str]:
        problem = Problem(matched, replace(program, text=1 << 20), WindowRoom(1024, windows), fill=fill, parts=parts)
        return [names[placed.index] for placed in of_sorted(problem, Sorted([3, 1, 0])).placed][3:]

    assert behind(3) == ["b.cold", "a.cold", "unseen", "c.cold"]
    assert behind(2) == ["b.cold", "unseen", "c.cold", "a.cold"]  # which has no room
    monkeypatch.setattr(unseen, "scattered", lambda *_: True)
    assert behind(0) == ["c.cold", "b.cold", "a.cold", "unseen"]


def test_windows_are_counted_with_what_divided_functions_are_aligned_to() -> None:
    """Clang aligns them to less when they are compiled with a list."""
    count = 160
    program = Functions([n * 32 for n in range(1, count + 1)], [24] * count, ["f"] * count, [""] * count, {})
    matched = Matched(dict.fromkeys(range(count), 1))

    def needed(parts: dict[int, int]) -> int:
        return of_sorted(Problem(matched, program, WindowRoom(4096, 4), parts=parts), Sorted(list(range(count)))).needed

    assert needed({}) == 2  # 32 bytes each
    assert needed({0: count - 1}) == 1  # 24
