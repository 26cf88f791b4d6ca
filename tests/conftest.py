"""Setup for all tests."""

import importlib.util
import os
import signal
import zlib
from typing import TYPE_CHECKING

import pytest

from tests.support import TOOLCHAINS

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

# A background job of a shell script ignores SIGINT, and what nohup starts SIGHUP, and its children inherit that: tests
# of interrupts would test nothing.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

if importlib.util.find_spec("hypothesis"):  # tests/unit runs without it
    from hypothesis import settings

    settings.register_profile("tests", deadline=None)  # how long an example takes is the machine's business
    settings.load_profile("tests")

_LIVE, _LINK = "tests/live/", "tests/link/"
_TURNS = 2  # toolchains or linkers of each test in `make test`
_NAMES = [toolchain.name for toolchain in TOOLCHAINS]


@pytest.fixture(scope="session", autouse=True)
def journal_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Files that tests fix are nothing for `hugealign status` to list on this machine."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.getbasetemp() / "state")


@pytest.hookimpl(tryfirst=True)  # before -m is obeyed
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave each test of links with two linkers, those whose turn it is; its others are of the long matrix."""
    tests: dict[str, dict[str, list[pytest.Item]]] = {}
    for item in items:
        parameters = getattr(item, "callspec", None)
        for key, value in parameters.params.items() if parameters else ():
            name = getattr(value, "name", value)
            if name in _NAMES or (key == "linker" and item.nodeid.startswith(_LINK)):
                tests.setdefault(item.nodeid.partition("[")[0], {}).setdefault(name, []).append(item)
    for test, linkers in tests.items():
        turn, step = zlib.crc32(test.encode()), -(-len(linkers) // _TURNS)
        for number, cases in enumerate(linkers.values()):
            for case in cases if (number + turn) % step else ():
                case.add_marker("matrix")


@pytest.hookimpl(optionalhook=True)  # `pytest` alone needs no xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "Scheduling":
    """Return what shares out the tests among the processes of ``make test``: by file, and all of ``live`` to one.

    Tests of a file share what its fixtures have made.  Those of ``live`` drop, fill and measure one page cache, and
    mount: two of them at once would see each other's work.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc] # untyped
        def _split_scope(self, nodeid: str) -> str:
            return _LIVE if nodeid.startswith(_LIVE) else nodeid.split("::", 1)[0]

    return ByFile(config, log)
