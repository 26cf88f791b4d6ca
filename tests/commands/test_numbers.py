"""Numbers on the command lines of `ps`, `warm` and `fix`: digits only, with a bound, and a line otherwise."""

import pytest

from tests.support import HUGEALIGN, run

#: What `int` and `float` alone would take, or answer with a traceback.
_ODD = ["9" * 5000, "9" * 33, "1_0", "+1", " 1", "1e3", "nan", "inf", "٣", "0x10", "-1"]


@pytest.mark.parametrize("number", _ODD)
@pytest.mark.parametrize(
    "words",
    [
        ["ps", "--wait={}", "1"],
        ["ps", "--watch={}", "1"],
        ["ps", "--min-coverage={}", "1"],
        ["warm", "--windows={}", "/bin/true"],
        ["warm", "--wait={}", "/bin/true"],
        ["fix", "--dry-run", "--page-size={}", "/bin/true"],
    ],
    ids=" ".join,
)
def test_numbers_of_options(words: list[str], number: str) -> None:
    done = run(HUGEALIGN, *(word.format(number) for word in words))
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert "error: " in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("pid", ["9" * 5000, "9" * 33])
def test_pid_that_is_none(pid: str) -> None:
    done = run(HUGEALIGN, "ps", pid)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("hugealign: error: PID: ")
    assert len(done.stderr) < 200
