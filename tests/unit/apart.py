"""Tests that need mounts, without root: each in a child with mounts of its own, and a program without a compiler."""

import functools
import os
import struct
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from hugealign.system import namespace

M = 2 << 20
Test = Callable[[Path, Path], None]
WHY = namespace.refusal()


def program(path: Path, size: int = M, at: int = M) -> Path:
    """Write a program with *size* bytes of text, *at* a place in the file: one window, if they are enough, and at M."""
    names, end = b"\0.text\0", at + size
    words = (3, 62, 1, M, 64, end + len(names), 0, 64, 56, 2, 64, 3, 2)
    header = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", *words)
    for flags, offset, address, length in ((4, 0, 0, 0x1000), (5, at, M, size)):
        header += struct.pack("<IIQQQQQQ", 1, flags, offset, address, address, length, length, M if at == M else 0x1000)
    text = struct.pack("<IIQQQQIIQQ", 1, 1, 6, M, at, size, 0, 0, 16, 0)
    table = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, end, len(names), 0, 0, 1, 0)
    with path.open("wb") as file:
        file.write(header)
        file.seek(at)
        file.write(b"\xcc" * size + names + bytes(64) + text + table)
    path.chmod(0o755)
    return path


def apart(test: Test) -> Callable[[], None]:
    """Run *test* in a child with mounts of its own, which passes it a program and where a store may be.

    What it opens, it closes.
    """

    @functools.wraps(test)
    def run() -> None:
        if WHY:
            pytest.skip(f"no mount namespace: {WHY.code}")
        with tempfile.TemporaryDirectory() as directory:
            Path(directory).chmod(0o755)
            child = os.fork()
            if not child:
                status = 1
                try:
                    namespace.enter()
                    opened = len(os.listdir("/proc/self/fd"))
                    test(program(Path(directory, "program")), Path(directory, "store"))
                    assert len(os.listdir("/proc/self/fd")) == opened
                    status = 0
                except BaseException:  # noqa: BLE001  # told by the status
                    traceback.print_exc(file=sys.stdout)
                finally:
                    sys.stdout.flush()
                    os._exit(status)
            _, status = os.waitpid(child, 0)
        assert status == 0

    del run.__wrapped__  # pytest would look for its arguments
    return run
