"""The corpus for the processors of the table: each source in its first variant, with the linkers in turn.

A source that the plain compiler or linker of a processor does not take is skipped: it holds code or options of another.
"""

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.corpus import SOURCES, Case, Source
from tests.link.test_corpus import Checker
from tests.link.test_processors import CHAINS, ROWS, Chain
from tests.support import Toolchain

pytestmark = pytest.mark.matrix

#: Patterns of sources and chains whose programs do not do the same twice under QEMU's user mode, laid out or not.
UNSTABLE = {
    "shared/big_table*": "code for x86-64, which the assembler takes minutes to refuse",
    "exceptions/cancel*": "the thread may be cancelled before it has a cleanup",
    "data/maps-*-wild": "QEMU shows the data and the text behind them as one mapping, if no byte lies between them",
    "data/heap-loongarch64-*": "QEMU may leave no room for the heap behind a program with small gaps",
    "instrumented/address*": "QEMU gives no room for the sanitizer's shadow; what it prints has process numbers",
}


def pairs() -> list[tuple[Source, Chain]]:
    """Return each source with a chain of each row."""
    by_row = [[chain for chain in CHAINS.values() if chain.machine is row] for row in ROWS]
    return [(source, chains[turn % len(chains)]) for turn, source in enumerate(SOURCES) for chains in by_row]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus")


@pytest.mark.parametrize(
    ("source", "chain"), [pytest.param(*pair, id=f"{pair[0].name}-{pair[1].name}") for pair in pairs()]
)
def test_case(source: Source, chain: Chain, directory: Path) -> None:
    variant = source.variants[0]
    toolchain = Toolchain(f"gcc-{chain.linker}", chain.words[0], chain.words[1:])
    case = Case(source, variant, toolchain)
    unstable = next((why for name, why in UNSTABLE.items() if fnmatchcase(f"{source.name}-{chain.name}", name)), None)
    if reason := unstable or chain.missing(case.mode()) or case.cannot():
        pytest.skip(reason)
    runner, page = tuple(map(str, chain.run)), chain.machine.windows[0]
    checker = Checker(directory / chain.name, runner, page, chain.compile[1:])
    checker.directory.mkdir(exist_ok=True)
    try:
        plain = checker.link(case, directory / f"{chain.name}-{source.name.replace('/', '-')}")
    except AssertionError as error:
        pytest.skip(f"does not compile for {chain.machine.name}: {str(error).splitlines()[-1]}")
    if any(status for status, *_ in plain):
        pytest.skip(f"does not link for {chain.machine.name} without hugealign")
    checker.check(case)
