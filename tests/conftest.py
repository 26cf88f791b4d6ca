"""Setup for all tests."""

import gc
import importlib.util
import os
import signal
import zlib
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import MissingError

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

_LIVE = "tests/live/"
#: One in so many cases of a test, rounded up, and at most so many.
_SHARE, _MOST = 7, 3
#: All cases of these: the first two start few processes, and take a minute together; the corpus takes its own share;
#: then what is refused, and races, of the modules that `make mutants` changes, in so far as tests/unit has it not; and
#: tables whose rows start nothing.
_WHOLE = (
    "tests/unit/",
    "tests/properties/",
    "tests/link/test_corpus.py",
    "tests/commands/test_fix_checked.py",
    "tests/commands/test_oci_hook.py",
    "tests/live/test_races.py",
    "tests/live/test_replace.py",
    "tests/live/test_store.py",
    "tests/commands/test_profile_formats.py::test_what_is_read",
    "tests/commands/test_profile_tools.py::test_exact_counts",
    "tests/commands/test_profile_tools.py::test_perf_data_that_was_made",
)
_SLOW = "tests/unit/profile/test_read.py"  # but not of this: it takes as long as all other unit tests


@pytest.fixture(scope="session", autouse=True)
def journal_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Files that tests fix are nothing for `hugealign status` to list on this machine."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.getbasetemp() / "state")


@pytest.hookimpl(hookwrapper=True)  # Debian 12's pytest knows no `wrapper`
def pytest_collection() -> Generator[None, None, None]:
    """Leave the tests, all 14,000, out of garbage collection: it took a third of the time of collecting them."""
    gc.disable()
    yield
    gc.enable()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before -m is obeyed
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave `make test` some cases of each test that starts programs; all others are of the long matrix."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not hasattr(item, "callspec") or item.get_closest_marker("matrix"):
            continue
        if not item.nodeid.startswith(_WHOLE) or item.nodeid.startswith(_SLOW):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for those in cases.values():
        those.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))  # by chance, so that each linker has its tests
        for item in those[min(-(-len(those) // _SHARE), _MOST) :]:
            item.add_marker("matrix")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup() -> Generator[None, Any, None]:
    """Skip a test whose fixtures cannot have what they need."""
    _skip_if_missing((yield))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call() -> Generator[None, Any, None]:
    """Skip a test that cannot have what it needs."""
    _skip_if_missing((yield))


def _skip_if_missing(outcome: Any) -> None:
    if not outcome.excinfo or not isinstance(outcome.excinfo[1], MissingError):
        return
    try:
        pytest.skip(str(outcome.excinfo[1]))
    except pytest.skip.Exception as skipped:
        if hasattr(outcome, "force_exception"):
            outcome.force_exception(skipped)
        else:  # before pluggy 1.1
            outcome._excinfo = type(skipped), skipped, skipped.__traceback__


@pytest.hookimpl(optionalhook=True)  # `pytest` alone needs no xdist
def pytest_xdist_auto_num_workers() -> int:
    """Return the processes of ``make test``: one more than there are processors, for tests of ``live`` wait a lot."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
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
