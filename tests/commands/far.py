"""A program of a few functions, none of which shares a window with another."""

import subprocess
from pathlib import Path

import pytest

FAR, COUNT = 3 << 20, 8  # a window and a half


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of eight functions, each in a window of its own; and the same without symbols."""
    directory = tmp_path_factory.mktemp("program")
    lines = [".text"]
    for n in range(COUNT):
        lines += [f".globl f{n}", f".type f{n}, @function", ".p2align 4", f"f{n}:", ".cfi_startproc"]
        lines += [f".fill {FAR}, 1, 0x90", "ret", ".cfi_endproc", f".size f{n}, . - f{n}"]
    (directory / "p.s").write_text("\n".join([*lines, ".globl _start", "_start: ret", ""]))
    for words in (
        ["gcc", "-nostdlib", "-static", "-Wl,--build-id", "p.s", "-o", "program"],
        ["strip", "program", "-o", "stripped"],
    ):
        subprocess.run(words, cwd=directory, check=True)
    return directory / "program"
