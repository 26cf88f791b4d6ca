"""The page about runtimes tells when it no longer holds."""

from lab.bench.runtimes import changed, page, recorded

HUGE = ["node 24", "as it is", "70 %", "0 %", "70 %", "2026-01-01"]
SMALL = ["bun 1", "as it is", "53 %", "0 %", "0 %", "2026-01-01"]


def test_rows_that_no_longer_hold_are_named() -> None:
    text = page([HUGE, SMALL], "")
    assert changed([HUGE, SMALL], text) == []
    assert changed([[*HUGE[:2], "91 %", "2 %", "90 %", ""]], text) == []  # a share differs from run to run
    assert changed([["node 27", *HUGE[1:]]], text) == []  # nothing is said of that one
    (result,) = changed([[*HUGE[:4], "3 %", ""]], text)
    assert result.startswith("node 24, as it is: ")
    (result,) = changed([[*SMALL[:4], "50 %", ""]], text)
    assert result.startswith("bun 1, as it is: ")


def test_rows_that_are_not_measured_again_keep_their_day() -> None:
    again = [*HUGE[:5], "2026-02-02"]
    text = page([again], page([HUGE, SMALL], ""))
    assert list(recorded(text).values()) == [again, SMALL]
