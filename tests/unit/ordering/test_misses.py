"""How many windows miss least, and where a function can begin."""

import pytest

from hugealign.elf.symbols import Functions
from hugealign.ordering import misses
from hugealign.ordering.alignment import alignment, place
from hugealign.ordering.misses import Misses
from hugealign.ordering.problem import Problem, of_sorted
from hugealign.ordering.sorting import Sorted
from hugealign.ordering.windows import WindowRoom
from hugealign.profile.match import Matched

# The choice.


def test_table_of_the_choice() -> None:
    made = Misses(["skylake", "4k=128/8,2m=8,l2=1536/12"], [[9000, 9], [100, 5], [20, 5], [20, 5], [7000, 5]], 4)
    assert list(misses.lines(made)) == [
        "huge windows          skylake  4k=128/8,2m=8,l2=1536/12",
        "           0            9,000                         9",
        "           1              100                         5",
        "*     2 to 3               20                         5",
        "           4            7,000                         5",
    ]
    assert misses.why(made) == "25 misses, the fewest of 1 to 4; min(needed, budget): 4, 7,005 misses"
    same = Misses(["c"], [[3], [5], [5]], 1)
    assert misses.why(same) == "5 misses, the fewest of 1 to 2 (none at all: 3); min(needed, budget): the same"
    assert misses.why(Misses(["c"], [[7], [5]], 1)) == "5 misses; min(needed, budget): the same"
    assert [line.split() for line in misses.lines(same)][1:] == [["0", "3"], ["*", "1", "to", "2", "5"]]


@pytest.mark.parametrize(("starts", "found"), [([0, 17, 33, 52], 1), ([0, 18, 34, 52], 2), ([0, 16, 32, 48, 50], 16)])
def test_alignment_is_that_of_most(starts: list[int], found: int) -> None:
    functions = Functions(starts, [1] * len(starts), ["f"] * len(starts), [""] * len(starts), {})
    assert alignment(functions) == found
    assert alignment(functions, divided=True) == min(found, 8)


def test_functions_are_no_further_apart_than_the_compiler_put_them() -> None:
    """Compiled for size they lie on any address: 1000 of 33 bytes need 33000, not 48000."""
    starts = [4096 + 33 * n for n in range(1000)]
    functions = Functions(starts, [33] * 1000, ["f"] * 1000, [""] * 1000, {}, text=33000)
    plan = of_sorted(Problem(Matched(), functions, WindowRoom(1 << 16, 9)), Sorted(range(999, -1, -1)))
    assert sum(window.used for window in plan.windows) == 33000
    assert place([0, 24], [10, 10], [1, 0], 5, 16) == [8, 32]
