"""What the tests themselves decide by: which tools a command needs that are not installed."""

from pathlib import Path

import pytest

from tests.support import lacking


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("gcc", None),
        ("gcc -fuse-ld=lld main.o", None),
        ("gcc-99 -fuse-ld=lld", "gcc-99"),
        ("gcc -fuse-ld=gold", "ld.gold"),
        ("gcc -fuse-ld=lld -B/no/such", "/no/such/ld.lld"),
        ("gcc -fuse-ld=lld -B{here}", None),
        ("clang-0 -fuse-ld=lld", None),
        ("clang-0 -fuse-ld=gold", "ld.gold"),
        ("clang-1 -fuse-ld=gold", None),  # beside itself
        ("clang-0 -fuse-ld=gold -B{here}", "{here}/ld.gold"),
        ("aarch64-linux-gnu-gcc -fuse-ld=gold", "aarch64-linux-gnu-ld.gold"),
        ("aarch64-linux-gnu-gcc -fuse-ld=lld", None),
    ],
)
def test_what_a_command_lacks(
    command: str, missing: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gcc", "clang-0", "aarch64-linux-gnu-gcc", "ld.lld"):
        (tmp_path / name).touch(0o755)
    (tmp_path / "llvm").mkdir()
    for name in ("clang", "ld.gold"):
        (tmp_path / "llvm" / name).touch(0o755)
    (tmp_path / "clang-1").symlink_to("llvm/clang")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert lacking(*command.format(here=tmp_path).split()) == (missing and missing.format(here=tmp_path))
