"""What /proc says of a process, read at once."""

import threading
import time

from hugealign.process import procfs


def test_processor_time_of_a_process_and_of_a_thread() -> None:
    before = procfs.used("self")
    while time.process_time() < before + 0.05:
        pass
    assert procfs.used("self") >= before + 0.03
    assert 0 < procfs.used(f"self/task/{threading.get_native_id()}") <= procfs.used("self")
    assert procfs.used("0") == 0
