"""Where a function can begin."""

import pytest

from hugealign.elf.symbols import Functions
from hugealign.ordering.problem import Problem, of_sorted
from hugealign.ordering.sorting import Sorted
from hugealign.ordering.windows import WindowRoom, alignment, place
from hugealign.profile.match import Matched


@pytest.mark.parametrize(("starts", "result"), [([0, 17, 33, 52], 1), ([0, 18, 34, 52], 2), ([0, 16, 32, 48, 50], 16)])
def test_alignment_is_that_of_most(starts: list[int], result: int) -> None:
    functions = Functions(starts, [1] * len(starts), ["f"] * len(starts), [""] * len(starts), {})
    assert alignment(functions) == result
    assert alignment(functions, divided=True) == min(result, 8)


def test_functions_are_no_further_apart_than_the_compiler_put_them() -> None:
    """Compiled for size they lie on any address: 1000 of 33 bytes need 33000, not 48000."""
    starts = [4096 + 33 * n for n in range(1000)]
    functions = Functions(starts, [33] * 1000, ["f"] * 1000, [""] * 1000, {}, text=33000)
    plan = of_sorted(Problem(Matched(), functions, WindowRoom(1 << 16, 9)), Sorted(range(999, -1, -1)))
    assert sum(window.used for window in plan.windows) == 33000
    assert place([0, 24], [10, 10], [1, 0], 5, 16) == [8, 32]
