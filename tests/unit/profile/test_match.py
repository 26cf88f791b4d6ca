"""The functions of a profile, by names that several have."""

from hugealign.elf.symbols import Functions
from hugealign.profile.match import Names, indices
from hugealign.profile.model import Place
from tests.support import steps


def functions(*files: str) -> Functions:
    """Local functions of one name, one from each of *files*, and as many clones of another."""
    names = ["f"] * len(files) + [f"g.constprop.{number}" for number in range(len(files))]
    by_name: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        by_name.setdefault(name, []).append(index)
    sizes = [16] * len(names)
    return Functions(list(range(0x1000, 0x1000 + 16 * len(names), 16)), sizes, names, [*files, *files], by_name)


def test_by_file_then_by_number() -> None:
    known = functions("a.c", "b.c", "sub/b.c", "")
    for name, first in (("f", 0), ("g", 4)):
        places = [(name, "b.c"), (name, "/src/b.c"), (name, "a.c"), (name, "c.c"), (name, ""), (f"{name}/b.c/2", "")]
        assert indices(places, known) == [first + place for place in (1, 1, 0, 0, 0, 2)]
    assert indices([("f/3", ""), ("f/9", ""), ("h", "a.c")], known) == [2, 0, -1]


def test_numbers_count_local_functions_by_address() -> None:
    """The symbol table may have them in another order, and a global one of the same name has no number."""
    known = functions("", "b.c", "a.c")
    known.by_name["f"] = [2, 1, 0]
    places = [("f/1", ""), ("f/2", ""), ("f/3", ""), ("f/a.c/1", ""), ("f/c.c/1", "")]
    assert indices(places, known) == [1, 2, 2, 2, 1]
    several: list[Place] = [*places, ("f/c/1", ""), ("f", ""), ("f/0", ""), 7]
    assert [*map(Names(known).exactly, several)] == [1, 2, -1, 2, -1, -1, -1, -1, 7]


def test_hashes_of_names() -> None:
    """The values are those that llvm-profdata 19 printed for these names; of clones they are without suffixes."""
    by_name = {"f1": [0], "f8.part.0": [1], "other": [2]}
    known = Functions([0x1000, 0x1010, 0x1020], [16] * 3, [*by_name], [""] * 3, by_name)
    places = [("2072045998141807037", ""), ("16213929806745574488", ""), ("5", "")]
    assert indices(places, known) == [0, 1, -1]


def test_many_functions_of_one_name() -> None:
    """The work is in proportion to their number."""
    files = [f"{number}.c" for number in range(2_000)]
    known = functions(*files)

    def look() -> None:
        assert indices([("f", file) for file in files], known) == [*range(2_000)]
        assert indices([("g", file) for file in files], known) == [*range(2_000, 4_000)]

    assert steps(look) < 100 * len(files)
