"""Random lines of real linker options, few of them in `make test`: see `tests.differential.links`."""

import pytest

from tests.differential import links
from tests.support import need

#: Another seed than that by which a fault was found makes it no better.
SEED = 2026


def judged(count: int) -> list[str]:
    need("ld.bfd")
    differing, ways = links.run(SEED, count)
    assert ways["laid out"] > count // 3
    return [f"{case.command()}: {difference}" for case in differing for difference in case.differences]


def test_some_lines_of_options() -> None:
    assert judged(12) == []


@pytest.mark.matrix
@pytest.mark.timeout(1800)
def test_many_lines_of_options() -> None:
    assert judged(1000) == []
