"""CDSort against lld, which has the same definition, and on graphs that lld cannot judge; C against Python."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hugealign.errors import HugealignError
from hugealign.ordering.cdsort import Arc, CallGraph, cdsort, merged
from tests.oracles import chains

LLD = shutil.which("ld.lld-19")


def lld_order(sizes: list[int], arcs: list[Arc], directory: Path) -> list[int]:
    """Return the order that lld gives to functions of these sizes, by their indices."""
    source = "".join(
        f'.section .text.f{index},"ax",@progbits\n.globl f{index}\nf{index}: .zero {size}\n'
        for index, size in enumerate(sizes)
    )
    (directory / "all.s").write_text(source)
    (directory / "graph").write_text("".join(f"f{arc.caller} f{arc.callee} {arc.weight}\n" for arc in arcs))
    subprocess.run(["as", "all.s", "-o", "all.o"], cwd=directory, check=True)
    words = ["--call-graph-ordering-file=graph", "--call-graph-profile-sort=cdsort", "-e", "0", "all.o", "-o", "all"]
    subprocess.run([str(LLD), *words], cwd=directory, check=True)
    lines = subprocess.run(["nm", "-n", "all"], cwd=directory, check=True, capture_output=True, text=True).stdout
    return [int(line.split()[2][1:]) for line in lines.splitlines() if " T f" in line]


def graph(seed: int) -> tuple[list[int], list[int], list[Arc]]:
    """Return sizes, counts and arcs of a random graph in which a few functions are called by many.

    As in lld, a function's index is the place of its first mention, its count what calls it.
    """
    choose = random.Random(seed)
    functions = choose.choice([5, 20, 100, 1000])
    weights: dict[tuple[int, int], int] = {}
    for _ in range(functions * choose.choice([1, 2, 3])):
        ends = [choose.randrange(functions) if choose.random() < 0.7 else 0 for _ in range(2)]
        weights[ends[0], ends[1]] = choose.choice([1, 10, choose.randrange(1, 100_000)])
    index: dict[int, int] = {}
    arcs = [
        Arc(index.setdefault(a, len(index)), index.setdefault(b, len(index)), weight)
        for (a, b), weight in weights.items()
    ]
    sizes = [choose.randrange(1, choose.choice([50, 500, 20_000])) for _ in index]
    counts = [0] * len(index)
    for arc in arcs:
        counts[arc.callee] += arc.weight if arc.caller != arc.callee else 0
    return sizes, counts, arcs


@pytest.mark.skipif(LLD is None, reason="no ld.lld-19 (lld sorts so since LLVM 17)")
@pytest.mark.parametrize("seed", range(24))
def test_same_as_lld(seed: int, tmp_path: Path) -> None:
    sizes, counts, arcs = graph(seed)
    assert cdsort(sizes, counts, arcs) == lld_order(sizes, arcs, tmp_path)


def test_functions_without_arcs_are_placed_by_their_heat() -> None:
    assert cdsort([100, 100, 100, 100], [1, 50, 0, 5], []) == [1, 3, 0, 2]


def test_equals_keep_their_order() -> None:
    assert cdsort([16] * 5, [3] * 5, []) == [0, 1, 2, 3, 4]


def test_the_call_offset_counts() -> None:
    """Called from its first byte, the callee goes in front of its caller; from its last byte, behind."""
    sizes, counts = [4000, 10], [0, 9]
    assert cdsort(sizes, counts, [Arc(0, 1, 9, offset=0)]) == [1, 0]
    assert cdsort(sizes, counts, [Arc(0, 1, 9, offset=3999)]) == [0, 1]


@pytest.mark.parametrize(
    ("sizes", "counts", "arcs"),
    [
        ([], [], []),
        ([0, 0], [0, 0], [Arc(0, 1, 0)]),
        ([1], [1 << 80], [Arc(0, 0, 1 << 80)]),
    ],
)
def test_odd_graphs(sizes: list[int], counts: list[int], arcs: list[Arc]) -> None:
    assert sorted(cdsort(sizes, counts, arcs)) == list(range(len(sizes)))


@st.composite
def graphs(draw: st.DrawFn) -> CallGraph:
    """Return small graphs with what is easily forgotten: ties, zeros, self arcs, duplicates, 2**63."""
    count = draw(st.integers(1, 30))
    index = st.integers(0, count - 1)
    number = st.one_of(st.sampled_from([0, 1, 10, 1 << 53, (1 << 53) + 1, 1 << 63]), st.integers(0, 1 << 63))
    size = st.one_of(st.sampled_from([0, 1, 16, 4096]), st.integers(0, 1 << 40))
    offset = st.one_of(st.none(), st.just(0), st.integers(-(1 << 50), 1 << 50))
    arcs = draw(st.lists(st.builds(Arc, index, index, number, offset), max_size=120))
    columns = [draw(st.lists(what, min_size=count, max_size=count)) for what in (size, number)]
    return CallGraph(columns[0], columns[1], arcs + draw(st.sampled_from([[], arcs])))


@given(graphs())
def test_c_does_what_python_does(graph: CallGraph) -> None:
    assert merged(graph) == chains.merged(graph)


def large(kind: str, functions: int, count: int) -> tuple[list[int], list[int], list[Arc]]:
    """Return sizes, counts and arcs of a graph like those of large programs."""
    choose = random.Random(kind)
    arcs = []
    for number in range(count):
        caller = choose.randrange(functions)
        callee = choose.randrange(functions)
        if kind == "hubs":
            callee = int(functions * choose.random() ** 2)
        elif kind == "near" and choose.random() < 0.7:
            callee = min(functions - 1, max(0, caller + int(choose.gauss(0, functions / 100))))
        elif kind == "star":
            caller, callee = number % functions, 0
        if kind == "equals":  # gains that are equal, or differ by the rounding of a sum; distances of 0
            arcs.append(Arc(caller, callee, choose.choice([3, 5, 7]), choose.choice([None, 0, 16])))
        else:
            arcs.append(Arc(caller, callee, int(choose.paretovariate(0.8))))
    if kind == "equals":
        return [16] * functions, [7] * functions, arcs
    sizes = [choose.randrange(16, 4096) for _ in range(functions)]
    return sizes, [int(choose.paretovariate(0.7)) for _ in sizes], arcs


@pytest.mark.parametrize("kind", ["hubs", "near", "uniform", "star", "equals"])
def test_c_does_what_python_does_with_many(kind: str) -> None:
    graph = CallGraph(*large(kind, 1200, 3000))
    assert merged(graph) == chains.merged(graph)


@pytest.mark.parametrize(
    ("sizes", "weight", "offset"),
    [
        ([1 << 60, 1], 1, 0),
        ([1 << 59, 1 << 59], 1, 0),
        ([1, 1], 1, 1 << 60),
        ([1, 1], 1, -(1 << 64)),
        ([1, 1], 1 << 333, 0),
    ],
)
def test_numbers_too_large_for_c(sizes: list[int], weight: int, offset: int) -> None:
    with pytest.raises(HugealignError, match="functions cannot be sorted: "):
        cdsort(sizes, [1, 1], [Arc(0, 1, weight, offset)])
