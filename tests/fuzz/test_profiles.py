"""A short run of the fuzzer over the readers; `python -m tests.fuzz.profiles` runs it longer."""

from hugealign.profile import read
from tests.fuzz import profiles


def test_mutated_profiles() -> None:
    result = profiles.run(1000, seed=7)
    assert not result.failures
    assert result.slowest.slowest < profiles.SECONDS_LIMIT
    assert set(result.read) >= {*profiles._WITHOUT_TOOLS, "refused"}, set(read.FORMATS) - set(result.read)
