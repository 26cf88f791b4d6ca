"""The page about runtimes tells when it no longer holds."""

from lab.bench.runtimes import changed, page

HUGE, SMALL = ["node 24", "as it is", "70 %", "0 %", "70 %"], ["bun 1", "as it is", "53 %", "0 %", "0 %"]


def test_rows_that_no_longer_hold_are_named() -> None:
    text = page([HUGE, SMALL])
    assert changed([HUGE, SMALL], text) == []
    assert changed([[*HUGE[:2], "91 %", "2 %", "90 %"]], text) == []  # a share differs from run to run
    assert changed([["node 27", *HUGE[1:]]], text) == []  # nothing is said of that one
    (found,) = changed([[*HUGE[:4], "3 %"]], text)
    assert found.startswith("node 24, as it is: ")
    (found,) = changed([[*SMALL[:4], "50 %"]], text)
    assert found.startswith("bun 1, as it is: ")
