"""Clang's map of basic blocks: any bytes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hugealign.code.blockmap import read_blocks
from hugealign.errors import HugealignError
from tests.unit.code.test_blockmap import SHT, V0, file_of


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blockmap") / "file"


@given(st.binary(max_size=64), st.integers(0, 5), st.integers(0, 255))
def test_any_bytes_are_a_map_or_refused(path: Path, data: bytes, version: int, features: int) -> None:
    kind, head = (SHT, bytes([version, features])) if version else (V0, b"")
    try:
        result = read_blocks(file_of(path, head + data, kind=kind))
    except HugealignError:
        return
    assert sum(map(len, result.values())) <= len(data)
