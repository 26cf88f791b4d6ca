"""hugealign's claims on Debian's kernels of other processors.  Run by ``make test-kernels``."""

import pytest

from tests.kernels import debian, machine, processors, results
from tests.kernels.claims import faults

pytestmark = [pytest.mark.kernels, pytest.mark.timeout(machine.SECONDS + 1200)]


@pytest.mark.parametrize("series", processors.KERNELS)
def test_claims_hold(series: str) -> None:
    results.forget(series)
    try:
        run = processors.measure(series)
    except debian.Unavailable as reason:
        pytest.skip(str(reason))
    assert faults(run["results"]) == []
    results.save(series, run)
