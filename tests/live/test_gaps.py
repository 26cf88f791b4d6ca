"""Root's commands, stopped between two system calls: see `tests.live.gaps`."""

import os

import pytest

from tests.live.gaps import ROWS, exchanges
from tests.support import need

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is needed, whose commands these are")


def test_the_gaps_at_which_something_can_be_won() -> None:
    need("gcc")
    for row in ROWS:
        done, wrong = exchanges(row, short=True)
        assert wrong == []
        assert done["exchanges"], row


@pytest.mark.matrix
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("row", ROWS)
def test_all_gaps(row: str) -> None:
    need("gcc")
    done, wrong = exchanges(row)
    print(f"{row}: {dict(done)}")
    assert wrong == []
    assert done["exchanges"] >= 2000
