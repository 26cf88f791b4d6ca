"""The simulation in C against the definition in Python; layouts and geometries."""

from array import array
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hugealign.elf.symbols import Functions
from hugealign.errors import HugealignError, UsageError
from hugealign.system.processors import CPUS, find
from hugealign_lab import tracefile
from hugealign_lab.geometry import Geometry, Level, Table, geometry, parse
from hugealign_lab.placement import WINDOW, keys, ordered, original, pages
from hugealign_lab.ran import profile
from hugealign_lab.replay import BEGINS, ELSEWHERE, ENDS, FUNCTION, Replay
from hugealign_lab.simulate import best, simulate
from hugealign_lab.tracefile import open_trace
from lab.tests.reference import calls, decode, part
from lab.tests.reference import simulate as reference
from lab.tests.traces import FILES, MIB, heat, write_trace

TABLES = st.builds(Table, st.sampled_from([1, 2, 3, 4, 8]), st.integers(1, 5))
LEVELS = st.builds(Level, TABLES, st.none() | TABLES)
SECONDS = st.builds(Level, TABLES, st.none() | TABLES | st.just(Table(0, 0)))
GEOMETRIES = st.builds(Geometry, st.just("any"), LEVELS, st.none() | SECONDS)
BLOCK_ROWS = st.tuples(st.integers(0x1000, 6 * MIB), st.integers(0, 2), st.integers(1, 4096), st.just(1))


@settings(max_examples=150, deadline=None, suppress_health_check=(HealthCheck.function_scoped_fixture,))
@given(data=st.data(), cpu=GEOMETRIES, windows=st.integers(0, 4))
def test_c_counts_as_the_definition_does(data: st.DataObject, cpu: Geometry, windows: int, tmp_path: Path) -> None:
    blocks = data.draw(st.lists(BLOCK_ROWS, min_size=1, max_size=40))
    ids = st.lists(st.integers(1, len(blocks)), max_size=300)
    streams = data.draw(st.lists(st.lists(ids, min_size=1, max_size=2), min_size=1, max_size=3))
    trace = open_trace(str(write_trace(tmp_path / "t", blocks, streams)))
    placement = original(trace, 1)
    result = pages(trace, placement)
    plain = [[n for part in decode(trace, chunks) for n in part] for chunks in trace.streams]
    expected = reference(plain, result, keys(result, placement, windows), cpu)
    (row,) = simulate(trace, [(placement, [windows])], [cpu]).rows
    assert (row.misses, row.walks) == expected


@settings(max_examples=150, deadline=None, suppress_health_check=(HealthCheck.function_scoped_fixture,))
@given(data=st.data(), cpu=GEOMETRIES)
def test_c_counts_a_part_as_the_definition_does(data: st.DataObject, cpu: Geometry, tmp_path: Path) -> None:
    """Parts that begin and end in any chunk of a thread, in the same one, with the same block, or not at all."""
    blocks = data.draw(st.lists(BLOCK_ROWS, min_size=1, max_size=12))
    ids = st.lists(st.integers(1, len(blocks)), max_size=30)
    streams = data.draw(st.lists(st.lists(ids, min_size=1, max_size=3), min_size=1, max_size=3))
    mark = st.sampled_from([0, 0, 0, BEGINS, ENDS, BEGINS | ENDS])
    marks = bytes([0, *data.draw(st.lists(mark, min_size=len(blocks), max_size=len(blocks)))])
    trace = open_trace(str(write_trace(tmp_path / "t", blocks, streams)))
    placement = original(trace, 1)
    result = pages(trace, placement)
    plain = [part([n for chunk in decode(trace, chunks) for n in chunk], marks) for chunks in trace.streams]
    expected = reference((ids for ids, _ in plain if ids is not None), result, keys(result, placement, 1), cpu)
    done = simulate(trace, [(placement, [1])], [cpu], marks=marks)
    assert (done.rows[0].misses, done.rows[0].walks) == expected
    assert done.events == sum(len(ids) for ids, _ in plain if ids is not None)
    assert done.threads == sum(ids is not None for ids, _ in plain)
    assert done.ended == sum(ended for _, ended in plain)


@settings(max_examples=150, deadline=None, suppress_health_check=(HealthCheck.function_scoped_fixture,))
@given(data=st.data())
def test_c_counts_calls_as_the_definition_does(data: st.DataObject, tmp_path: Path) -> None:
    count = data.draw(st.integers(1, 30))
    ids = st.lists(st.integers(1, count), max_size=300)
    streams = data.draw(st.lists(st.lists(ids, min_size=1, max_size=2), min_size=1, max_size=3))
    trace = open_trace(str(write_trace(tmp_path / "t", [(0x1000, 1, 16, 4)] * count, streams)))
    owners = [ELSEWHERE, *data.draw(st.lists(st.integers(ELSEWHERE, FUNCTION + 3), min_size=count, max_size=count))]
    chosen = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    entries = [0, *(int(owner >= FUNCTION and item) for owner, item in zip(owners[1:], chosen, strict=True))]
    plain = [[n for part in decode(trace, chunks) for n in part] for chunks in trace.streams]
    branches = data.draw(st.booleans())
    with Replay(trace) as replay:
        replay.count_calls(array("I", owners), bytes(entries), branches)
        replay.run()
        assert replay.calls() == (calls(plain, owners, entries, branches), 0)


def test_calls_beyond_the_room_are_told(tmp_path: Path) -> None:
    """More different pairs than the table of calls has room for: those that it has are right, the others counted."""
    half = 1100
    blocks = bytes(16) + b"".join(tracefile.BLOCK.pack(0x1000 + 16 * n, 1, 16, 4) for n in range(2 * half))
    order = array("I", (block for a in range(half) for b in range(half) for block in (a + 1, half + b + 1)))
    with (tmp_path / "t").open("wb") as out:
        out.write(tracefile.MAGIC)
        for number, at in enumerate(range(0, len(order), tracefile.EVENTS_LIMIT), 1):  # each a thread: not encoded
            ids = order[at : at + tracefile.EVENTS_LIMIT]
            tracefile.write_chunk(out, number, tracefile.LAST | tracefile.RAW, len(ids), ids.tobytes())
        tracefile.write_end(out, tracefile.Description(("program",), "x86_64", FILES, 1, len(order)), blocks)
    trace = open_trace(str(tmp_path / "t"))
    with Replay(trace) as replay:
        replay.count_calls(array("I", [0, *[FUNCTION] * half, *[FUNCTION + 1] * half]), bytes(half + 1) + b"\1" * half)
        replay.run()
        result, uncounted = replay.calls()
    assert len(result) == 1 << 20
    assert set(result.values()) == {1}
    assert len(result) + uncounted == half * half


def _trace(path: Path, addresses: list[int], order: list[int]) -> Path:
    return write_trace(path, [(address, 1, 16, 4) for address in addresses], [[order]])


def test_counts_by_hand(tmp_path: Path) -> None:
    """Three pages in turn through two entries miss each time; as one huge window they miss once."""
    trace = open_trace(str(_trace(tmp_path / "t", [0x1000, 0x2000, 0x3000], [1, 2, 3] * 10)))
    cpu = parse("4k=2,2m=1,l2=4")
    done = simulate(trace, [(original(trace, 1), [0, 1])], [cpu])
    assert [(row.windows, row.misses, row.walks) for row in done.rows] == [(0, 30, 3), (1, 1, 1)]
    assert (done.events, done.instructions, done.uncovered) == (30, 120, 0)


def test_a_block_across_two_pages_needs_both(tmp_path: Path) -> None:
    trace = open_trace(str(_trace(tmp_path / "t", [0x1FF8], [1] * 5)))
    (row,) = simulate(trace, [(original(trace, 1), [0])], [parse("any=1,l2=8")]).rows
    assert (row.misses, row.walks) == (10, 2)


def test_too_many_windows_miss_more(tmp_path: Path) -> None:
    """Three windows in turn, two entries of 2 MiB, one of 4 KiB: two windows are best, three evict each other."""
    starts = [0x1000, WINDOW, 2 * WINDOW]
    trace = open_trace(str(_trace(tmp_path / "t", starts, [1, 2, 3] * 100)))
    cpu = parse("4k=1,2m=2,l2=0")
    done = simulate(trace, [(original(trace, 1), range(17))], [cpu])
    expected = [(0, 300), (1, 201), (2, 3), (3, 300), (4, 300)]
    assert [(row.windows, row.misses) for row in done.rows] == expected
    assert (best(done.rows).windows, best(done.rows[:2]).windows) == (2, 1)


def _functions(starts: list[int], sizes: list[int]) -> Functions:
    return Functions(starts, sizes, [f"f{n}" for n in range(len(starts))], [""] * len(starts), {})


def test_an_order_moves_functions(tmp_path: Path) -> None:
    """First what comes before functions, then the order, then the others as they were, each on its own alignment."""
    blocks = [
        (0x1004, 1, 8, 2),  # before any function
        (0x1020, 1, 8, 2),  # f0, 0x1020 to 0x1030
        (0x1044, 1, 8, 2),  # f1, 0x1040 to 0x1058; on 16 as far as anybody cares
        (0x105C, 1, 4, 1),  # behind f1: stays there
        (0x1062, 1, 2, 1),  # f2 from 0x1062: on 2
        (0x1020, 2, 8, 2),  # a library: stays
    ]
    trace = open_trace(str(write_trace(tmp_path / "t", blocks, [[[1, 2, 3, 4, 5, 6]]])))
    placed = ordered(trace, 1, "order", _functions([0x1020, 0x1040, 0x1062], [0x10, 0x18, 4]), [2, 1, 1])
    base = [
        address - (file << 48) for address, (_, file, _, _) in zip(placed.addresses, trace.block_rows(), strict=True)
    ]
    # f2 at 0x20 to 0x24, f1 at 0x30 to 0x50, f0 at 0x50
    assert base[1:] == [0x4, 0x50, 0x34, 0x4C, 0x20, 0x1020]
    assert (placed.first, placed.windows) == ((1 << 48) // WINDOW, 1)


def test_the_order_of_the_file_is_the_file_itself(tmp_path: Path) -> None:
    """Functions that lie close, in the order that they have: everything stays, but for the start of the window."""
    starts = [0x1000 + 64 * n for n in range(200)]
    trace = open_trace(str(_trace(tmp_path / "t", starts, list(range(1, 201)))))
    same = ordered(trace, 1, "order", _functions(starts, [64] * 200), [])
    assert [a - 0x1000 for a in original(trace, 1).addresses][1:] == list(same.addresses)[1:]


def test_heat_of_functions(tmp_path: Path) -> None:
    trace = open_trace(str(_trace(tmp_path / "t", [0x1000, 0x1100, 0x1110], [1, 2, 2, 3, 3, 3])))
    assert heat(trace, 1, _functions([0x1000, 0x1100], [16, 32])) == [4, 20]


def test_a_trace_as_a_profile(tmp_path: Path) -> None:
    """f0 calls f1 twice directly and once through the PLT; a library calls f1, which is not a call of ours."""
    blocks = [
        (0x1000, 1, 16, 4),  # 1: f0
        (0x1010, 1, 8, 2),  # 2: f0, further down
        (0x1100, 1, 16, 4),  # 3: f1
        (0x1004, 1, 4, 1),  # 4: f0, within its first block
        (0x900, 1, 4, 1),  # 5: the PLT, of no function
        (0x5000, 2, 16, 4),  # 6: a library
    ]
    order = [1, 2, 3, 2, 3, 2, 5, 3, 4, 6, 3, 6]
    trace = open_trace(str(write_trace(tmp_path / "t", blocks, [[order]])))
    result, uncounted = profile(trace, 1, _functions([0x1000, 0x1100], [32, 32]))
    assert (result.samples, uncounted) == ({0: 4 + 3 * 2 + 1, 1: 4 * 4}, 0)
    assert (result.total, result.hits, result.foreign) == (28, 27, 8)
    assert result.missing == [("(no function)", 1)]
    assert result.arcs == {(0, 1, 0x17): 3}


def test_a_file_without_text(tmp_path: Path) -> None:
    trace = open_trace(str(_trace(tmp_path / "t", [0x1000], [1])))
    with pytest.raises(HugealignError, match="no text of the program"):
        original(trace, 0)


def test_every_known_cpu() -> None:
    for cpu in CPUS:
        if cpu.l1_2m is None:
            with pytest.raises(UsageError, match="no source gives"):
                geometry(cpu)
            continue
        made = geometry(cpu)
        assert cpu.l1_4k
        assert made.first.small.sets * made.first.small.ways == cpu.l1_4k.entries
        huge = made.first.table(huge=True)
        assert huge.sets * huge.ways == cpu.l1_2m.entries


def test_what_is_shared_and_what_is_not() -> None:
    zen, intel, old = (geometry(find(name)) for name in ("zen3", "skylake", "ivybridge"))
    assert zen.first == Level(Table(1, 64), None)
    assert intel.first == Level(Table(16, 8), Table(1, 8))
    assert intel.second == Level(Table(128, 12), None)
    assert old.second == Level(Table(128, 4), Table(0, 0))  # no 2 MiB page beyond the first level


@pytest.mark.parametrize(
    "text",
    [
        "4k=64", "any=64,4k=1,2m=8", "4k=64/3,2m=8", "4k=0,2m=8", "4k=64,2m=0", "4k=-1,2m=8", "4k=64/0,2m=8",
        "4k=64/,2m=8",
        "4k=99999999999,2m=8", "4k=65536,2m=8", "l2=8", "4k=1,4k=2,2m=3", "4k=1,2m=2,x=3", "4k=1,2m=2,l2=8/16",
        "=", "\x1b=1",
    ],
)  # fmt: skip
def test_absurd_geometries(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert "\x1b" not in str(caught.value)


def test_large_but_possible(tmp_path: Path) -> None:
    """As many entries as are allowed, in both levels: node numbers of 16 bits are enough."""
    addresses = [0x1000 + 4096 * n for n in range(1500)]
    trace = open_trace(str(_trace(tmp_path / "t", addresses, [*range(1, 1501)] * 2)))
    (row,) = simulate(trace, [(original(trace, 1), [0])], [parse("4k=16384,2m=16384,l2=16384,l2-2m=16384")]).rows
    assert (row.misses, row.walks) == (1500, 1500)


def test_c_copies_what_it_is_given(tmp_path: Path) -> None:
    """Arrays that are gone before the run change nothing: the counts are those of the definition."""
    trace = open_trace(str(_trace(tmp_path / "t", [0x1000 * n for n in range(1, 9)], [*range(1, 9)] * 3)))
    with Replay(trace) as replay:
        placement = original(trace, 1)
        result = pages(trace, placement)
        machine = replay.machine(replay.variant(replay.layout(result), keys(result, placement, 0)), parse("any=4,l2=8"))
        del result
        assert sum(array("I", [7] * 100_000)) == 700_000
        replay.run()
        assert replay.counts(machine) == (24, 8)
