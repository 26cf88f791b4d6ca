"""Where blocks lie when a linker has put the functions in another order."""

from types import SimpleNamespace
from typing import Any, cast

from hugealign.elf.symbols import Functions
from hugealign.ordering.blocks import KeptBlocks
from hugealign_lab.placement import ordered
from hugealign_lab.tracefile import Trace


def test_divided_functions_lie_closer() -> None:
    """Clang aligns them to less when they are compiled with a list."""
    starts = [0x1000, 0x1020, 0x1040]
    program = Functions(starts, [24] * 3, ["a", "b", "c"], [""] * 3, {})
    text: Any = SimpleNamespace(executable=True, p_vaddr=0x1000, p_memsz=0x60)
    description = SimpleNamespace(files=[SimpleNamespace(segments=[text])])
    rows = [(start, 0, 24, 1) for start in starts]
    trace = cast("Trace", SimpleNamespace(description=description, block_rows=lambda: rows))

    def offsets(kept: dict[int, KeptBlocks]) -> list[int]:
        addresses = ordered(trace, 0, "order", program, [2, 0, 1], kept).addresses
        return [address - min(addresses) for address in addresses]

    assert offsets({}) == [32, 64, 0]
    assert offsets({2: KeptBlocks((0,), 24, ((0, 24, 0),), part=3)}) == [24, 48, 0]
