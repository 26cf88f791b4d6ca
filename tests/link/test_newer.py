"""The layout, the stranger links and the corpus with newer linkers than this system has; newer.py fetches them."""

import inspect
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from tests.corpus import SOURCES, Case
from tests.link import (
    newer,
    test_corpus,
    test_guards,
    test_layout,
    test_order,
    test_situations,
    test_small,
)
from tests.support import Toolchain

pytestmark = pytest.mark.matrix

# Every test of these modules that takes a toolchain is a test here too, with the fixture `toolchain` below.
for module in (test_guards, test_layout, test_order, test_situations, test_small):
    for name, function in vars(module).items():
        if name.startswith("test_") and "toolchain" in inspect.signature(function).parameters:
            globals()[name] = function
verdicts = test_corpus.verdicts
work = test_situations.work
objects, profile = test_order.objects, test_order.profile


class Newer(Toolchain):
    """gcc with a linker of build/newer, named ``gcc-LINKER-SUITE``."""

    __slots__ = ()

    @property
    def linker(self) -> str:
        return self.name.split("-")[1]

    def missing(self) -> str | None:
        return newer.unavailable(self.name.split("-")[2])


NEWER = [
    Newer(f"gcc-{linker}-{suite}", "gcc", (f"-fuse-ld={linker}", f"-B{newer.TARGET / suite / 'bin'}"))
    for suite in newer.SUITES
    for linker in ("bfd", "lld", "mold", "gold")
    if (linker, suite) != ("gold", "sid")  # the same as in trixie
]
# gcc 12 knows no -fuse-ld=wild, but takes what is called ld.
NEWER.append(Newer(f"gcc-wild-{newer.CARGO}", "gcc", (f"-B{newer.TARGET / newer.CARGO / 'bin'}",)))


@pytest.fixture(params=NEWER, ids=lambda toolchain: toolchain.name)
def toolchain(request: pytest.FixtureRequest) -> Toolchain:
    """In place of the installed linkers of conftest.py."""
    chosen: Toolchain = request.param
    if reason := chosen.missing():
        pytest.skip(reason)
    return chosen


def sample() -> Iterator[Case]:
    """Every source of the corpus in its first variant, with wild, and with the other newer linkers in turn."""
    *others, wild = NEWER
    for turn, source in enumerate(SOURCES):
        yield Case(source, source.variants[0], others[turn % len(others)])
        yield Case(source, source.variants[0], wild)


@pytest.mark.parametrize("case", list(sample()), ids=str)
def test_program_of_the_corpus(case: Case, verdicts: dict[Case, Future[None]]) -> None:
    if reason := case.skip():
        pytest.skip(reason)
    verdicts[case].result()
