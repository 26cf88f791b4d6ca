"""Orders, windows and order files of programs that are made up."""

from hypothesis import given
from hypothesis import strategies as st

from hugealign import orderfile
from hugealign.orderfile import COLD, FILL, HOT, Entry, OrderFile
from hugealign.ordering import knapsack
from tests.unit.ordering.test_order import PAGE, Known, filled, matched, planned, program


@given(st.data())
def test_properties_of_choices(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 5000), min_size=1, max_size=40))
    some = st.integers(0, len(sizes) - 1)
    samples = data.draw(st.dictionaries(some, st.integers(0, 1000), min_size=1))
    calls = data.draw(st.dictionaries(some, st.lists(some)))
    room, usual = data.draw(st.integers(0, 50000)), data.draw(st.sampled_from([1, 4, 16]))
    functions = program(sizes)

    of = Known(calls)
    for chosen, others in (
        (knapsack.densest(functions, samples, room, usual), False),
        (knapsack.densest(functions, samples, room, usual, of), True),
        (knapsack.likely(functions, samples, room, usual, of), True),
    ):
        assert all(0 < chance <= 1 for chance in chosen.values())
        assert sum(max(-(-sizes[index] // usual) * usual, usual) for index in chosen) <= room
        assert others or set(chosen) <= set(samples)
    assert not set(chosen) & set(samples)
    assert knapsack.likely(functions, samples, room, usual, of) == chosen


@given(
    st.lists(st.integers(1, PAGE * 2), min_size=1, max_size=60),
    st.data(),
    st.integers(1, 9),
    st.none() | st.dictionaries(st.integers(0, 59), st.lists(st.integers(0, 59))),
)
def test_properties_of_plans(
    sizes: list[int], data: st.DataObject, limit: int, calls: dict[int, list[int]] | None
) -> None:
    functions = program(sizes)
    if calls is not None:
        calls = {caller % len(sizes): [callee % len(sizes) for callee in callees] for caller, callees in calls.items()}
    touched = data.draw(st.sets(st.integers(0, len(sizes) - 1), min_size=1))
    plan = planned(functions, matched({index: index for index in touched}), limit, calls)
    placed = [item.index for item in plan.placed]
    assert len(placed) == len(set(placed))
    assert set(placed) >= touched
    assert plan.count <= limit
    assert sum(w.samples for w in plan.windows) == sum(touched)
    assert sum(w.functions for w in plan.windows) == len(placed)
    if not plan.whole:
        assert plan.count >= min(plan.needed, limit)
    if filled(plan) and plan.needed <= limit:
        assert len(plan.windows) <= limit
    assert all(item.window <= limit for item in plan.placed if item.kind == FILL)


_TEXT = st.text(st.characters(codec="utf-8") | st.sampled_from("\t\n\r\\#@ =\udcff\x1b"), min_size=1)


@given(
    st.lists(
        st.builds(
            Entry,
            _TEXT,
            st.just("") | _TEXT,
            st.integers(0, 1 << 63),
            st.sampled_from([HOT, COLD, FILL]),
            st.integers(1, 3),
        ),
        max_size=6,
    ),
    st.dictionaries(st.sampled_from(["profile", "binary", "build-id"]), _TEXT, min_size=1),
)
def test_order_files_round_trip(entries: list[Entry], header: dict[str, str]) -> None:
    """Whatever the names are: each is one line, and comes back."""
    order = OrderFile(header, entries)
    text = orderfile.write(order)
    changes = sum(a.window != b for a, b in zip(entries, [0, *(e.window for e in entries)], strict=False))
    assert text.count("\n") == 1 + len(header) + len(entries) + changes
    assert all(c.isprintable() or c in "\n\t" for c in text)
    parsed = orderfile.parse(text.encode())
    assert list(parsed.entries) == entries
    assert parsed.header == header
