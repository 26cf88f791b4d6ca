"""GLIBC_TUNABLES for a command: added to what there is, never instead of it."""

import pytest

from hugealign.stage.tunable import added


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, b"glibc.elf.thp=1"),
        (b"", b"glibc.elf.thp=1"),
        (b"glibc.malloc.check=3", b"glibc.malloc.check=3:glibc.elf.thp=1"),
        (b"glibc.elf.thp=0", b"glibc.elf.thp=0"),
        (b"a=b:glibc.elf.thp=1:c=d", b"a=b:glibc.elf.thp=1:c=d"),
        (b"glibc.elf.thp_x=0", b"glibc.elf.thp_x=0:glibc.elf.thp=1"),
    ],
)
def test_added(given: bytes | None, found: bytes) -> None:
    environ = {b"A": b"1"} | ({} if given is None else {b"GLIBC_TUNABLES": given})
    before = dict(environ)
    assert added(environ) == {b"A": b"1", b"GLIBC_TUNABLES": found}
    assert environ == before
