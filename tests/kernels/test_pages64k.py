"""hugealign's claims on a kernel with pages of 64 KiB, whose page tables are read.  Run by ``make test-kernels``."""

import pytest

from tests.kernels import built, debian, pages64k, results

pytestmark = [pytest.mark.kernels, pytest.mark.timeout(built.SECONDS + pages64k.SECONDS + 300)]


def test_claims_hold() -> None:
    results.forget(built.PAGES_64K)
    try:
        run = pages64k.measure()
    except debian.Unavailable as reason:
        pytest.skip(str(reason))
    first, *cells = run["results"]
    assert (first["page"], first["pmd"]) == (64 << 10, 512 << 20)
    assert pages64k.faults(cells) == []
    # Where the kernel reads ahead far enough, it makes large folios, and our files lie so that they are mapped whole.
    ahead = {cell["program"]: cell for cell in cells if cell["read_ahead_kib"] > 128}
    assert all(ahead[program]["contiguous"] for program, page in pages64k.PROGRAMS.items() if page)
    results.save(built.PAGES_64K, run)
