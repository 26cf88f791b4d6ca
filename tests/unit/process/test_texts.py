"""What /proc says of a process, read at once."""

import threading
import time

from hugealign.process import texts


def test_processor_time_of_a_process_and_of_a_thread() -> None:
    before = texts.used("self")
    while time.process_time() < before + 0.05:
        pass
    assert texts.used("self") >= before + 0.03
    assert 0 < texts.used(f"self/task/{threading.get_native_id()}") <= texts.used("self")
    assert texts.used("0") == 0
