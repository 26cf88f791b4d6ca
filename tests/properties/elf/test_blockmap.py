"""Clang's map of basic blocks: each version by hand, after LLVM's docs/Extensions.rst; and what is refused."""

import mmap

from hypothesis import given
from hypothesis import strategies as st

from hugealign.elf.blockmap import _function, _Reader
from hugealign.errors import MalformedElfError


@given(st.binary(max_size=64), st.integers(0, 5), st.integers(0, 255))
def test_any_bytes_are_a_map_or_refused(data: bytes, version: int, features: int) -> None:
    memory = mmap.mmap(-1, 64)
    memory[: len(data)] = data
    try:
        blocks = _function(_Reader(memory, len(data), "<", wide=True), version, features)
    except MalformedElfError:
        return
    assert len(blocks) <= len(data)
