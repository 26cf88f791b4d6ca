"""Setup for all tests."""

import importlib.util
import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

# A background job of a shell script ignores SIGINT, and its children inherit that: tests of interrupts would test
# nothing.
signal.signal(signal.SIGINT, signal.default_int_handler)

if importlib.util.find_spec("hypothesis"):  # tests/unit runs without it
    from hypothesis import settings

    settings.register_profile("tests", deadline=None)  # how long an example takes is the machine's business
    settings.load_profile("tests")

_LIVE = "tests/live/"


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
