"""Children of a process whose parent had it ignore SIGCHLD: the kernel keeps no status of them."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from hugealign.io.descriptors import SecondProcess
from hugealign.system import children


@pytest.fixture(params=[signal.SIG_DFL, signal.SIG_IGN], autouse=True)
def _sigchld(request: pytest.FixtureRequest) -> Iterator[None]:
    before = signal.signal(signal.SIGCHLD, request.param)
    yield
    signal.signal(signal.SIGCHLD, before)


def test_what_a_function_returns() -> None:
    assert children.result(lambda: ("done", 3, None)) == ("done", 3, None)
    assert children.result(lambda: 1 // 0) is None


def test_a_second_process() -> None:
    """Its result may be of any size; if it fails or is killed, the other function is called."""
    pid, *rest = SecondProcess(lambda: (os.getpid(), bytes(5 << 20), [(b"a", 1)])).result(lambda: 1 // 0)
    assert (pid != os.getpid(), rest) == (True, [bytes(5 << 20), [(b"a", 1)]])
    for failing in (lambda: 1 // 0, lambda: os.kill(os.getpid(), signal.SIGKILL)):
        assert SecondProcess(failing).result(lambda: "done") == "done"


def _hang() -> bytes:
    time.sleep(60)
    return b""


def test_functions_are_collected() -> None:
    hung, done = children.function(_hang), children.function(lambda: [7])
    children.collect([hung, done], 2.0)
    assert (hung.output, hung.status, hung.value, done.value) == (b"", None, None, [7])
