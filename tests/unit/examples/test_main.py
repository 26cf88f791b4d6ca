"""The commands that start the examples: options, and what is said of wrong ones."""

import os
import subprocess
from pathlib import Path

import pytest

from examples.servers.__main__ import arguments

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
COMMANDS = ("postgres/run.sh", "mysql/run.py")
WRONG = (["--rounds=-2"], ["--rounds", "10000"], ["--rounds", "x;y"], ["--what"], ["--seconds", "0"], ["--no-stal"])


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("words", WRONG)
def test_wrong_usage_ends_at_once(command: str, words: list[str]) -> None:
    done = subprocess.run([EXAMPLES / command, *words], capture_output=True, text=True, check=False, timeout=20)
    name = Path(command).name
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"usage: {name} ")
    assert f"\n{name}: error: " in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_from_anywhere(command: str, tmp_path: Path) -> None:
    """Without anything in the environment, and without a checkout around."""
    done = subprocess.run(
        [EXAMPLES / command, "--help"], capture_output=True, text=True, check=True, timeout=20, cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert "Exit status: 0 all promises kept, 1 one is broken, 2 usage, 3 something" in done.stdout.replace("\n", " ")
    assert ("--no-stale" in done.stdout) == (command == COMMANDS[0])


def test_options() -> None:
    server, result = arguments(["postgres"])
    assert (server.name, result.rounds, result.seconds, result.no_stale, result.build_dir) == (
        "postgres",
        10,
        2,
        False,
        None,
    )
    server, result = arguments(["mysql", "--rounds", "20", "--seconds=4", "--no-check", "--build-dir", "x"])
    assert (server.name, result.rounds, result.seconds, result.no_check) == ("mysql", 20, 4, True)
    assert result.build_dir == Path("x")
