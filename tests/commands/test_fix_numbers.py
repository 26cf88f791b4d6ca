"""`hugealign fix` on headers and records with numbers that no file has: one line and a documented status."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from hugealign.elf.fixrecord import MAGIC
from tests.support import PYTHON, ROOT

HUGEALIGN = ROOT / "bin" / "hugealign"
_EXTREMES = (1 << 63) - 1, 1 << 63, (1 << 64) - 1
#: Where in its header a field of eight bytes is.
_FIELDS = {
    "p_offset": ("segment", 8),
    "p_vaddr": ("segment", 16),
    "p_filesz": ("segment", 32),
    "p_memsz": ("segment", 40),
    "p_align": ("segment", 48),
    "sh_addr": ("section", 16),
    "sh_offset": ("section", 24),
    "sh_size": ("section", 32),
    "e_shoff": ("file", 40),
    "e_phoff": ("file", 32),
}


def fix(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HUGEALIGN, "fix", *words], check=False, capture_output=True, text=True, timeout=20)


def assert_one_line(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode in (1, 3), done
    assert done.stdout == ""
    assert done.stderr.startswith("hugealign: error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("field", _FIELDS)
@pytest.mark.parametrize("value", _EXTREMES, ids=hex)
def test_extreme_fields(field: str, value: int, tmp_path: Path) -> None:
    data = bytearray(Path(sys.executable).resolve().read_bytes())
    (e_phoff, e_shoff), (e_phnum, _, e_shnum) = struct.unpack_from("<QQ", data, 32), struct.unpack_from("<3H", data, 56)
    header, offset = _FIELDS[field]
    places = {
        "segment": e_phoff + 56 * (e_phnum - 1),
        "section": e_shoff + 64 * (e_shnum - 2),
        "file": 0,
    }
    struct.pack_into("<Q", data, places[header] + offset, value)
    path = tmp_path / "odd"
    path.write_bytes(data)
    undone = fix("--undo", path, "-o", tmp_path / "out")
    assert_one_line(undone)
    planned = fix(path, "-o", tmp_path / "out")
    assert planned.returncode in (0, 1, 3), planned
    assert "Traceback" not in planned.stderr
    if planned.returncode:
        assert_one_line(planned)
        assert os.listdir(tmp_path) == ["odd"]


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with a record."""
    path = tmp_path_factory.mktemp("fixed") / "fixed"
    for tool in ("/bin/bash", PYTHON):
        done = fix(Path(tool).resolve(), "-o", path, "--level", "shift", "--page-size", "64K")
        if done.returncode == 0 and MAGIC in path.read_bytes():
            return path.read_bytes()
    raise AssertionError(done)


@pytest.mark.parametrize("text", ["1e400", "-1", "9" * 30, "9" * 5000, '"1_0"', "true", "null", "[]", "0.5"])
@pytest.mark.parametrize("name", ["headers", "size", "page_size", "pieces"])
def test_numbers_of_a_record(name: str, text: str, fixed: bytes, tmp_path: Path) -> None:
    """Every number of the record that `--undo` reads is untrusted; the record itself stays where it is."""
    data = fixed
    start = data.rindex(MAGIC) + len(MAGIC)
    end = data.index(b"}", start) + 1
    key = f'"{name}": '.encode()
    at = data.index(key, start) + len(key)
    stop = data.index(b"]]", at) + 2 if name == "pieces" else data.index(b",", at)
    value = f"[[0, 0, {text}]]" if name == "pieces" else text
    record = data[start:at] + value.encode() + data[stop:end]
    (tmp_path / "fixed").write_bytes(data[:start] + record.ljust(end - start) + data[end:])
    assert_one_line(fix("--undo", tmp_path / "fixed", "-o", tmp_path / "back"))
    assert os.listdir(tmp_path) == ["fixed"]


@pytest.mark.parametrize("e_phoff", [1 << 26, 1 << 40, (1 << 63) - 1, (1 << 64) - 1], ids=hex)
def test_old_headers_that_lie_outside_of_the_old_file(e_phoff: int, fixed: bytes, tmp_path: Path) -> None:
    """What `--undo` writes is as long as the old file was; it was as long as the old headers said."""
    data = bytearray(fixed)
    struct.pack_into("<Q", data, data.index(b"\x7fELF", data.rindex(MAGIC)) + 32, e_phoff)
    (tmp_path / "fixed").write_bytes(data)
    assert_one_line(fix("--undo", tmp_path / "fixed", "-o", tmp_path / "back"))
    assert os.listdir(tmp_path) == ["fixed"]
