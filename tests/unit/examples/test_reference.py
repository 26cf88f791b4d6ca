"""The orders that the examples keep are read by what reads orders: a run takes hours to come to them."""

import gzip
from pathlib import Path

import pytest

from hugealign import orderfile
from tests.support import ROOT

ORDERS = sorted((ROOT / "examples").glob("*/reference/*.order.gz"))


@pytest.mark.parametrize("path", ORDERS, ids=lambda path: "-".join(path.parts[-3::2]))
def test_it_is_an_order(path: Path) -> None:
    assert orderfile.parse(gzip.decompress(path.read_bytes())).entries


def test_each_example_has_two() -> None:
    assert [path.parts[-3] for path in ORDERS] == ["mysql", "mysql", "postgres", "postgres"]
