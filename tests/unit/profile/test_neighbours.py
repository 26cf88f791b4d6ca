"""Functions whose names are gone, by where they lie and who calls them."""

from collections.abc import Sequence

from hugealign.code.calls import Calls
from hugealign.elf.symbols import Functions
from hugealign.profile.neighbours import LEAST, Guess, Lost, guesses
from tests.support import steps


class _Calls(Calls):
    """Direct calls as they are given: (caller, callee)."""

    def __init__(self, functions: Functions, pairs: Sequence[tuple[int, int]] = ()) -> None:
        super().__init__("", functions)
        self.pairs = pairs

    def callees(self, index: int) -> Sequence[int]:
        return [b for a, b in self.pairs if a == index]

    def callers(self, index: int) -> Sequence[int]:
        return [a for a, b in self.pairs if b == index]


def _functions(*places: tuple[int, str, str]) -> Functions:
    starts, names, files = zip(*places, strict=True)
    by_name = {name: [index] for index, name in enumerate(names)}
    return Functions([*starts], [16] * len(places), [*names], [*files], by_name)


#: Two functions that all know, and four local ones between them.
OURS = _functions(
    (0x1000, "first", ""),
    (0x1100, "a", "x.c"),
    (0x1200, "b", "x.c"),
    (0x1210, "exported", ""),
    (0x1300, "c", "y.c"),
    (0x1400, "d.cold", "y.c"),
    (0x1500, "last", ""),
)
ANCHORS = {0x2000: 0, 0x2500: 6}


def _named(*lost: Lost, pairs: Sequence[tuple[int, int]] = ()) -> dict[int, tuple[str, float]]:
    made = guesses(ANCHORS, lost, OURS, _Calls(OURS, pairs))
    return {at: (OURS.names[guess.index], guess.trust) for at, guess in made.items()}


def test_what_lies_at_the_same_place() -> None:
    assert _named(Lost(0x2100), Lost(0x2204)) == {0x2100: ("a", 1.0), 0x2204: ("b", 1 - 4 / 0xFC)}


def test_what_lies_in_the_middle_of_two_is_neither() -> None:
    assert _named(Lost(0x2180)) == {}


def test_what_lies_nearer_to_an_end_is_that_end() -> None:
    assert _named(Lost(0x24E0, "y.c")) == {}
    assert _named(Lost(0x2010, "x.c")) == {}


def test_each_is_taken_once_by_the_one_that_is_trusted_most() -> None:
    assert set(_named(Lost(0x2200), Lost(0x2208))) == {0x2200}


def test_a_function_with_a_symbol_that_all_see_is_none() -> None:
    """It would have its name in a stripped file as well; so is the cold part of a function none by itself."""
    assert _named(Lost(0x2210))[0x2210][0] == "b"
    assert all(name != "d.cold" for name, _ in _named(Lost(0x2400)).values())


def test_the_source_file_decides() -> None:
    assert _named(Lost(0x2200, "y.c"))[0x2200][0] == "c"
    assert _named(Lost(0x2200, "z.c")) == {}


def test_callers_and_callees_decide() -> None:
    """In the middle of two, the one that is called by the caller that was seen, or that calls the callee."""
    assert _named(Lost(0x2180, callers={0}), pairs=[(0, 1)])[0x2180][0] == "a"
    assert _named(Lost(0x2180, callees={6}), pairs=[(2, 6)])[0x2180][0] == "b"
    assert _named(Lost(0x2180, callers={0}), pairs=[(0, 5)]) == {}


def test_trust_falls_as_the_distance_of_the_anchors_changes() -> None:
    trusts = []
    for end in (0x2500, 0x2600, 0x2900):
        place = 0x2000 + 0x100 * (end - 0x2000) // 0x500
        made = guesses({0x2000: 0, end: 6}, [Lost(place)], OURS, _Calls(OURS))
        trusts += [guess.trust for guess in made.values()]
    assert trusts[0] > trusts[1] > trusts[2] >= LEAST


def test_many_lost_functions_of_many() -> None:
    """Two anchors and all others lost, of one file: each looked at all of ours."""
    many = 2_000
    ours = _functions((0, "first", ""), *((16 * n, f"f{n}", "x.c") for n in range(1, many)), (16 * many, "last", ""))
    lost = [Lost(16 * n, "x.c") for n in range(1, many)]
    made: dict[int, Guess] = {}
    assert steps(lambda: made.update(guesses({0: 0, 16 * many: many}, lost, ours, _Calls(ours)))) < 60 * many
    assert all(at == 16 * guess.index for at, guess in made.items())
    assert len(made) == many - 1


def test_anchors_that_changed_places_say_nothing() -> None:
    assert guesses({0x2000: 6, 0x2500: 0}, [Lost(0x2100)], OURS, _Calls(OURS)) == {}
    assert guesses({0x2000: 0}, [Lost(0x2100)], OURS, _Calls(OURS)) == {}
