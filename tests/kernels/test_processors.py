"""hugealign's claims on Debian's kernels of other processors.  Run by ``make test-kernels``."""

import pytest

from tests.kernels import machine, processors, results
from tests.kernels.claims import faults

pytestmark = [pytest.mark.kernels, pytest.mark.timeout(machine.SECONDS + 1200)]


@pytest.mark.parametrize("series", processors.KERNELS)
def test_claims_hold(series: str) -> None:
    results.forget(series)
    run = processors.measure(series)
    assert faults(run["results"]) == []
    results.save(series, run)
