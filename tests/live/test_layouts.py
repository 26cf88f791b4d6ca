"""What `verify`, `ps`, `fix` and `run` say of generated layouts is what the kernel does with them."""

import random

import pytest

from tests.differential import layouts
from tests.differential.elffile import KINDS, generate


def differences(seed: str, count: int, run_each: int) -> list[str]:
    if reason := layouts.missing():
        pytest.skip(reason)
    with layouts.places() as differ:
        if not differ.keeps_huge_folios():
            pytest.skip(f"the file system of {differ.places['disk']} keeps no huge folios")
        return [line for n in range(count) for line in differ.case(seed, n, run=n % run_each == 0)]


def test_a_few_layouts() -> None:
    assert differences("few", 40, 20) == []


@pytest.mark.matrix
@pytest.mark.parametrize("part", range(10))
def test_many_layouts(part: int) -> None:
    """As `python -m tests.differential.layouts --count 5000`, in parts."""
    assert differences(f"many {part}", 500, 100) == []


def test_every_kind_of_layout_is_generated() -> None:
    made = [generate(random.Random(f"kinds/{n}")) for n in range(400)]
    assert {layout.kind for layout in made} == set(KINDS)
    assert {p.align for layout in made for p in layout.parts} >= {4096, 16 << 10, 1 << 20, 2 << 20, 1 << 30}
    assert {(layout.sections, layout.textrel, layout.headers) for layout in made} >= {
        (True, False, True),
        (False, False, True),
        (True, True, True),
        (True, False, False),
    }
    assert any(layout.parts[0].address % 4096 for layout in made)
    assert any(len(layout.texts) > 2 for layout in made)
    assert any(p.flags & 3 == 3 and p.memory > p.size for layout in made for p in layout.parts)
    assert any((p.address - p.offset) % (2 << 20) for layout in made for p in layout.texts)
