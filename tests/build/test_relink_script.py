"""The script with which examples/mysql links the objects of one build in other ways."""

import importlib
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.support import ROOT


@pytest.fixture(scope="module")
def mariadb() -> Iterator[ModuleType]:
    """The example's module, which lies where only it looks."""
    before = list(sys.path)
    sys.path[:0] = [str(ROOT / "examples" / "mysql"), str(ROOT / "examples" / "postgres"), str(ROOT / "examples")]
    try:
        yield importlib.import_module("mariadb")
    finally:
        sys.path[:] = before


def test_the_script_links_the_same_objects(mariadb: ModuleType, tmp_path: Path) -> None:
    """What it gives is what the command gave, with any compiler in front, from any directory."""
    tree = tmp_path / "a tree"
    (tree / "CMakeFiles").mkdir(parents=True)
    source = tree / "main.c"
    source.write_text("int main(void) { return 7; }\n")
    subprocess.run(["gcc", "-c", source, "-o", tree / "CMakeFiles" / "main.o"], check=True)
    command = f"gcc -Wl,-z,relro -B{ROOT}/hugealign/libexec/ CMakeFiles/main.o -o mariadbd -lm"
    subprocess.run(shlex.split(command), cwd=tree, check=True)
    script = tmp_path / "relink.sh"
    script.write_text(mariadb.relink_script(command, tree))
    script.chmod(0o755)
    assert subprocess.run(["shellcheck", script], check=False).returncode == 0

    subprocess.run([script, "plain"], cwd=tmp_path, check=True)
    assert (tmp_path / "plain").read_bytes() == (tree / "mariadbd").read_bytes()
    assert subprocess.run([tmp_path / "plain"], check=False).returncode == 7
    shown = tmp_path / "shown"
    shown.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    shown.chmod(0o755)
    said = subprocess.run([script, tmp_path / "out", shown, "-x y"], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["-x y", "-Wl,-z,relro", "CMakeFiles/main.o", "-o", str(tmp_path / "out"), "-lm"]
    assert subprocess.run([script], capture_output=True, check=False).returncode == 2
