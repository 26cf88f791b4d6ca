"""What `measure` says."""

import pytest

from hugealign.diagnosis import documents
from hugealign.measuring import report
from hugealign.measuring.interval import Ratio
from hugealign.measuring.measure import Measurement, Side
from tests.documents import check


def measured(cpu: Ratio, seen: int | None = 3) -> Measurement:
    first = Side("small pages", 3, 0, None, 0.0013, 0.0014, 210.0, 0.012)
    second = Side("huge pages", 3, 3, seen, 0.0011, 0.0012, 188.0, 0.02, cpu, Ratio(0.9, 0.8, 1.1))
    return Measurement(("perl", "-e", "\x1b[31m"), (first, second), 1, 4, 20, 90)


@pytest.mark.parametrize(
    ("ratio", "words", "faster"),
    [
        (Ratio(0.9, 0.895, 0.902), "10.0 % less processor time: 0.900 (0.895 to 0.902)", True),
        (Ratio(1.1, 1.05, 1.15), "10.0 % more processor time: 1.100 (1.050 to 1.150)", False),
        (Ratio(0.99, 0.97, 1.01), "no difference shown: 0.990 (0.970 to 1.010)", False),
    ],
)
def test_first_line_is_the_answer(ratio: Ratio, words: str, faster: bool) -> None:
    result = measured(ratio)
    lines = report.lines(result)
    assert words in lines[0].replace("\x1b[32m", "").replace("\x1b[0m", "").replace("\x1b[m", "")
    assert "\x1b[31m" not in "".join(lines)  # of a word
    assert result.faster == faster
    assert lines[-1] == "  1 file, 4 copies of each file, 20 rounds of 90 runs; identical copies differ by up to 2.0 %"


@pytest.mark.parametrize("seen", [None, 3])
def test_json(seen: int | None) -> None:
    document = check(documents.text(measured(Ratio(0.9, 0.895, 0.902), seen)))
    assert [side["huge_seen"] for side in document["sides"]] == [None, seen]
