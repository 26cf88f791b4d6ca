"""Which files a program has unpacked into a cache."""

import hashlib
import os
from pathlib import Path

import pytest

from hugealign.io.caches import cached


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha384", "sha512"])
def test_a_name_with_the_digest_of_the_contents(tmp_path: Path, algorithm: str) -> None:
    contents = b"\x7fELF" * 5
    digest = hashlib.new(algorithm, contents).hexdigest()
    for name, wanted in ((f"{digest}.node", True), (f"lib-{digest}", True), (f"{digest[::-1]}", False), ("x", False)):
        path = tmp_path / name
        path.write_bytes(contents)
        with path.open("rb") as file:
            file.read(3)
            assert cached(str(path), file.fileno()) == wanted


def test_a_directory_that_is_not_here(tmp_path: Path) -> None:
    """A path in a container leads nowhere on the host."""
    (tmp_path / "x").touch(mode=0o600)
    with (tmp_path / "x").open("rb") as file:
        assert not cached("/not/here/x", file.fileno())


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o1777)
    monkeypatch.chdir(tmp_path)
    with open("x", "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        assert cached("x", file.fileno())
        os.fchmod(file.fileno(), 0o640)
        assert not cached("x", file.fileno())
