"""``hugealign profile drift``: whether an order is out of date, by the heat in its windows."""

import json
from pathlib import Path

import pytest

import hugealign
from hugealign import OrderOptions, budget_of
from hugealign.orderfile import write
from tests.commands.far import program
from tests.documents import check
from tests.support import HUGEALIGN, run

__all__ = ["program"]  # a fixture: eight functions, of a window and a half each


@pytest.fixture
def order(program: Path, tmp_path: Path) -> Path:
    """An order of two windows: f1 is in the first, f6 begins in the second."""
    (tmp_path / "then").write_text("f1 900\nf6 100\n")
    return bare(program, tmp_path, 2)


def bare(program: Path, directory: Path, windows: int) -> Path:
    """Write the order that the profile ``then`` makes, without other functions."""
    options = OrderOptions(budget=budget_of(windows=windows), fill=False)
    (directory / "order").write_text(write(hugealign.order(str(program), [str(directory / "then")], options).file()))
    return directory / "order"


def test_what_the_windows_hold(order: Path, program: Path, tmp_path: Path) -> None:
    now = tmp_path / "now"
    words = [HUGEALIGN, "profile", "drift", order, now, "-b", program]
    now.write_text("f1 800\nf6 200\n")
    done = run(*words)
    assert done.returncode == 0
    assert done.stdout.startswith("The order's 2 leading windows hold 100.00 % of the heat; a new order's would hold ")
    now.write_text("f1 10\nf6 20\nf3 940\nf4 30\n")
    for threshold, status in ((None, 1), ("94.5%", 0)):
        done = run(*words, *([f"--threshold={threshold}"] if threshold else []), "--json")
        result = check(done.stdout)
        assert (done.returncode, result["out_of_date"]) == (status, bool(status))
        assert (result["current"], result["new"], result["windows"]) == (0.03, 0.97, 2)
    done = run(*words)
    assert "out of date: link again (lost 94.00 %, threshold 5.00 %)" in done.stdout


def test_one_window(program: Path, tmp_path: Path) -> None:
    (tmp_path / "then").write_text("f1 900\n")
    done = run(HUGEALIGN, "profile", "drift", bare(program, tmp_path, 1), tmp_path / "then", "-b", program)
    assert done.stdout.startswith("The order's leading window holds ")


def test_counts_of_a_fleet(order: Path, program: Path, tmp_path: Path) -> None:
    for name, text in (("a", "f1 5\nf3 900\n"), ("b", "f6 3\nf3 40\n")):
        (tmp_path / name).write_text(text)
        run(
            HUGEALIGN,
            "profile",
            "reduce",
            tmp_path / name,
            "-b",
            program,
            "-o",
            tmp_path / f"{name}.counts",
            check=True,
        )
    run(HUGEALIGN, "profile", "merge", tmp_path / "a.counts", tmp_path / "b.counts", "-o", tmp_path / "all", check=True)
    done = run(HUGEALIGN, "profile", "drift", order, tmp_path / "all", "-b", program, "--json")
    assert (done.returncode, json.loads(done.stdout)["current"]) == (1, 8 / 948)


def test_wrong_usage(order: Path, program: Path, tmp_path: Path) -> None:
    (tmp_path / "now").write_text("f3 500\n")
    for words in (
        [order],
        [order, tmp_path / "now", "-o", tmp_path / "x"],
        [order, tmp_path / "now", "--threshold=101"],
    ):
        assert run(HUGEALIGN, "profile", "drift", "-b", program, *words).returncode == 2
    run(HUGEALIGN, "order", tmp_path / "now", "-b", program, "--windows=0", "-o", tmp_path / "small", check=True)
    done = run(HUGEALIGN, "profile", "drift", tmp_path / "small", tmp_path / "now", "-b", program)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    done = run(HUGEALIGN, "profile", "drift", tmp_path / "now", tmp_path / "now", "-b", program)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
