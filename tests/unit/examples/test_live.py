"""What is measured in turn, what of it counts, and what may be claimed."""

import itertools
from pathlib import Path

import pytest

from examples.servers import live as module
from examples.servers.live import BUSY, Live, Order, covered, interleaved, look, make_order
from examples.servers.server import VARIANTS, Example, Instance, read
from examples.servers.steps import Steps
from examples.servers.text import WINDOW, Text


def test_turns_are_fair() -> None:
    rounds = interleaved("abcd", 8)
    assert all(sorted(turn) == list("abcd") for turn in rounds)
    assert [sum(turn[0] == name for turn in rounds) for name in "abcd"] == [2, 2, 2, 2]
    before = {(first, second): 0 for first in "abcd" for second in "abcd" if first != second}
    for turn in rounds:
        for first, second in itertools.pairwise(turn):
            before[first, second] += 1
    assert all(before[first, second] == before[second, first] for first, second in before)


def measured(loads: list[float]) -> Live:
    """So many rounds; the ordered server is 1.1 times as fast, one round of ten times as much is a busy one."""
    result = Live(dict.fromkeys(VARIANTS, 0))
    for number, load in enumerate(loads):
        busy = 10 if load >= BUSY else 1
        speed = {"plain": 100.0, "hugealign": 100.0 + number % 2, "ordered": 110.0 * busy, "leading": 90.0}
        result.rounds.append({("select", variant): {"tps": speed[variant]} for variant in VARIANTS})
        result.load.append(load)
    return result


def test_rounds_of_a_busy_machine_do_not_count() -> None:
    result = measured([0.5, 1.0, BUSY, 1.9, 0.1])
    assert (len(result.calm()), result.claimed()) == (4, True)
    ratios = {name: ratio for _, _, name, _, ratio in result.changes()}
    assert ratios["plain"] is None
    assert str(ratios["ordered"]) == "1.100 (1.100 to 1.100)"
    assert ratios["hugealign"]
    assert not ratios["hugealign"].claim


@pytest.mark.parametrize("loads", [[3.0, 4.0, 5.0], [1.0, 4.0, 5.0], [1.0, 1.0, 4.0, 4.0, 4.0], [1.0, 3.0]])
def test_nothing_is_claimed_if_too_few_rounds_count(loads: list[float]) -> None:
    result = measured(loads)
    assert not result.claimed()
    assert [ratio for *_, ratio in result.changes()] == [None] * 4


def test_intervals_are_wider_for_more_comparisons() -> None:
    """Three servers are compared by one figure of one load; then by two of two."""
    few, many = measured([1.0] * 8), measured([1.0] * 8)
    many.rounds = [
        {(load, variant): {"tps": result["tps"], "cpu": 1.0} for (_, variant), result in one.items() for load in "ab"}
        for one in many.rounds
    ]
    one, two = (
        next(ratio for _, _, name, _, ratio in result.changes() if name == "hugealign" and ratio)
        for result in (few, many)
    )
    assert one.ratio == pytest.approx(two.ratio)
    assert two.low < one.low < one.ratio < one.high < two.high


def test_too_little_huge_text_breaks_the_promise_and_the_least_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = iter([3 * WINDOW, WINDOW, 2 * WINDOW])
    monkeypatch.setattr(Instance, "work", lambda *_: {})
    monkeypatch.setattr(Instance, "text", lambda _: Text(0, 3 * WINDOW, next(huge)))
    steps = Steps(tmp_path, "nobody")
    item = Instance(Example(read("postgres"), steps, 2, 2), "ordered", tmp_path, tmp_path)
    result = Live({"ordered": 2})
    for number in range(3):
        look(result, [item], number)
    assert result.text["ordered"].huge == WINDOW
    assert steps.broken == ["ordered: the kernel maps 2048 of 6144 KiB with PMDs, not 4096 KiB"]


def test_samples_of_an_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of functions that ran, by all their names; what fills the window did not."""
    for name in ("stamps", "orders"):
        (tmp_path / name).mkdir()
    example = Example(read("postgres"), Steps(tmp_path, "nobody"), 2, 2)
    text = "# hugealign.order/1\n# windows: 1\n\\x23f\tfile=a.c\tsamples=3\ng\nh\tkind=fill\ng\tfile=b.c\tsamples=2\n"
    example.order("major").write_text(text + "g2\tof=g\n")
    report = '{"samples": {"matched": 90, "total": 100}, "functions": {"hot": 3}}'
    monkeypatch.setattr(Steps, "output", lambda _, command: report if "--json" in command else f"{tmp_path}/a table")
    result = make_order(example, "major", "major")
    assert result == Order("a table", 90, 3, {"#f": 3, "g": 2, "g2": 0})
    assert covered(Order("", 0, 0, {"g2": 30, "h": 10}), result) == 75
    assert covered(Order("", 0, 0, {}), result) == 0


def test_a_directory_has_a_path_of_one_length(tmp_path: Path) -> None:
    """How long a path is decides where strings lie, and the socket's has 107 bytes at most."""
    steps = Steps(tmp_path, "nobody")
    with module.short_directory(steps, "postgres") as one, module.short_directory(steps, "postgres") as two:
        assert one.is_dir()
        assert len(str(one)) == len(str(two)) == len("/tmp/hugealign-postgres.12345678")
    assert not one.exists()
