"""`hugealign run` reads plain words itself, and as argparse would."""

import subprocess
import sys

import pytest

from hugealign.cli import command_parser, launching, run
from tests.support import ROOT


@pytest.mark.parametrize(
    "words",
    [
        "x", "-- x", "x -v --how=copy", "-v x", "--verbose --libs --fix --rodata x y", "-v -- -x --", "--how=stage x",
        "--how=in-place --store=/a/b -- x --store=/c", "--store= x", "--how=copy --how=auto x", "--",
    ],
)  # fmt: skip
def test_plain_words_are_read_as_argparse_reads_them(words: str) -> None:
    ours, theirs = run.quick(words.split()), command_parser("run").parse_args(words.split())
    assert ours
    assert {name: getattr(ours, name) for name in launching.Asked.__annotations__} == vars(theirs)


@pytest.mark.parametrize(
    "words",
    ["", "-h x", "--how=no x", "--how stage x", "--lib x", "-vv x", "--wait=5 x", "--libs=1 x", "- x", "--libs"],
)
def test_what_is_not_plain_is_for_argparse(words: str) -> None:
    assert run.quick(words.split()) is None


def test_a_start_loads_nothing_slow() -> None:
    """Each of them takes longer than what `run` does with a small program."""
    code = "import sys; from hugealign import cli; from hugealign.run import launch; cli.run.quick(['x'])"
    code = f"{code.replace('import cli', 'import cli; import hugealign.cli.run')}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-ISc", f"import sys; sys.path.append({str(ROOT)!r}); {code}"], check=True,
                          capture_output=True, text=True)  # fmt: skip
    slow = {"argparse", "dataclasses", "inspect", "json", "re", "shutil", "subprocess", "typing"}
    assert not slow & set(done.stdout.split())
