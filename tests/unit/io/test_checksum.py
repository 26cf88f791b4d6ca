"""SHA-256 without OpenSSL is that of hashlib."""

import hashlib
import subprocess
import sys

import pytest

from hugealign.io.checksum import LONG, sha256


@pytest.mark.parametrize("size", [0, 1, 64, LONG, LONG + 1])
def test_it_is_that_of_hashlib(size: int) -> None:
    assert sha256(b"x" * size).digest() == hashlib.sha256(b"x" * size).digest()


def test_little_is_done_without_openssl() -> None:
    code = "import sys; from hugealign.io.checksum import sha256; sha256(b'x'); assert '_hashlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
