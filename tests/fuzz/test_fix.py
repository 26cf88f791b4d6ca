"""A slice of the fuzzing of fixes; the long run is ``python -m tests.fuzz.fix --count 60000``."""

from tests.fuzz import fix


def test_three_thousand_files() -> None:
    result = fix.run(3000, 1)
    assert result.failures == []
    assert result.slowest < fix.SECONDS_LIMIT
    # The mutations are neither so wild that nothing can be fixed, nor so tame that nothing is refused.
    assert result.counts["fixed"] > 300
    assert result.counts["refused"] > 1000
