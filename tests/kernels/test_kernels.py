"""hugealign's claims on Debian's kernels, each booted in software emulation.  Run by ``make test-kernels``."""

import shutil

import pytest

from tests.kernels import built, debian, machine, results
from tests.kernels.claims import faults

pytestmark = [pytest.mark.kernels, pytest.mark.timeout(built.SECONDS + machine.SECONDS + 300)]


@pytest.fixture(scope="session")
def system() -> machine.Emulated:
    """The disk with Python, hugealign and the programs."""
    try:
        machine.check_tools()
        debian.update()
    except debian.Unavailable:
        shutil.rmtree(results.DIRECTORY, ignore_errors=True)  # nothing to make a document of
        raise
    return machine.disks()


@pytest.mark.parametrize("series", results.SERIES)
def test_claims_hold(system: machine.Emulated, series: str) -> None:
    results.forget(series)
    try:
        run = results.measure(series, system)
    except debian.Unavailable as reason:
        results.save(series, {"series": series, "unavailable": str(reason)})
        raise
    assert faults(run["results"]) == []
    results.save(series, run)
