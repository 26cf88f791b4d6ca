"""What the examples compile: the links of MariaDB that are done again, and what a traced server sees of the machine."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from examples.mysql.job import relink_script
from tests.support import ROOT


def test_the_script_links_the_same_objects(tmp_path: Path) -> None:
    """What it gives is what the command gave, with any compiler in front, from any directory."""
    tree = tmp_path / "a tree"
    (tree / "CMakeFiles").mkdir(parents=True)
    source = tree / "main.c"
    source.write_text("int main(void) { return 7; }\n")
    subprocess.run(["gcc", "-c", source, "-o", tree / "CMakeFiles" / "main.o"], check=True)
    command = f"gcc -Wl,-z,relro -B{ROOT}/hugealign/libexec/ CMakeFiles/main.o -o mariadbd -lm"
    subprocess.run(shlex.split(command), cwd=tree, check=True)
    script = tmp_path / "relink.sh"
    script.write_text(relink_script(command, tree))
    script.chmod(0o755)
    assert subprocess.run(["shellcheck", script], check=False).returncode == 0

    subprocess.run([script, "plain"], cwd=tmp_path, check=True)
    assert (tmp_path / "plain").read_bytes() == (tree / "mariadbd").read_bytes()
    assert subprocess.run([tmp_path / "plain"], check=False).returncode == 7
    shown = tmp_path / "shown"
    shown.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    shown.chmod(0o755)
    output = subprocess.run(
        [script, tmp_path / "out", shown, "-x y"], capture_output=True, text=True, check=True
    ).stdout
    assert output.splitlines() == ["-x y", "-Wl,-z,relro", "CMakeFiles/main.o", "-o", str(tmp_path / "out"), "-lm"]
    assert subprocess.run([script], capture_output=True, check=False).returncode == 2


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that sees what the traced server sees of the machine."""
    library = tmp_path_factory.mktemp("alike") / "alike.so"
    words = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(library)]
    subprocess.run([*words, str(ROOT / "examples" / "mysql" / "alike.c")], check=True)
    return {"LD_PRELOAD": str(library), "PATH": "/usr/bin:/bin"}


def test_each_machine_looks_the_same(alike: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "sys").write_text("there")
    script = """
import os, sys
print(os.getpid(), os.path.exists("/sys/kernel"), open("sys").read())
os.close(os.open("new", os.O_CREAT | os.O_WRONLY, 0o640))
print(oct(os.stat("new").st_mode & 0o777))
try:
    open("/sys/kernel/mm/transparent_hugepage/enabled")
except FileNotFoundError:
    print("hidden")
sys.stdout.flush()
os.kill(os.getpid(), 15)
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], env=alike, cwd=tmp_path, capture_output=True, text=True, check=False,
        umask=0o022,
    )  # fmt: skip
    assert (done.stdout.split(), done.returncode) == (["4321", "True", "there", "0o640", "hidden"], -15), done.stderr
