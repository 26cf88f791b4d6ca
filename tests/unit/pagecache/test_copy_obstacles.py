"""Why a copy in memory is not huge: what is seen decides, not the kernel's answer alone."""

import errno

import pytest

from hugealign.machine import kernel, memory
from hugealign.pagecache import obstacles, warming
from hugealign.pagecache.warming import Warmth


@pytest.mark.parametrize(
    ("answer", "mode", "free", "knows", "code"),
    [
        (errno.EINVAL, "deny", 9, True, "shmem-denied"),
        (errno.EINVAL, "never", 0, True, "fragmented"),
        (errno.ENOMEM, "never", 9, True, "fragmented"),
        (errno.EINVAL, "never", 9, False, "no-collapse"),
        (errno.EINVAL, "never", 9, True, "refused"),
        (0, "never", 9, True, "partly"),
    ],
)
def test_reason(monkeypatch: pytest.MonkeyPatch, answer: int, mode: str, free: int, knows: bool, code: str) -> None:
    monkeypatch.setattr(kernel, "thp_mode", lambda _: mode)
    monkeypatch.setattr(memory, "free_huge_pages", lambda: free)
    monkeypatch.setattr(warming, "collapses", lambda: knows)
    warmth = Warmth((False, False), collapse=answer)
    assert obstacles.of_copy(warmth, memory.limit_hits()).code == code
