"""hugealign's claims on a kernel with pages of 64 KiB, whose page tables are read.  Run by ``make test-kernels``."""

import pytest

from tests.kernels import pages64k, results

pytestmark = [pytest.mark.kernels, pytest.mark.timeout(pages64k.SECONDS + 1200)]


def test_claims_hold() -> None:
    results.forget(pages64k.SERIES)
    run = pages64k.measure()
    first, *cells = run["results"]
    assert (first["page"], first["pmd"]) == (64 << 10, 512 << 20)
    assert pages64k.faults(cells) == []
    # Read from end to end, files come into memory in folios that grow; later ones are mapped contiguously.
    assert any(cell["contiguous"] == cell["windows"] for cell in cells if cell["read"])
    results.save(pages64k.SERIES, run)
