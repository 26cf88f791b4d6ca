"""Why a copy in memory is not huge: what is seen decides, not the kernel's answer alone."""

import errno

import pytest

from hugealign.pagecache import diagnose, warming
from hugealign.pagecache.warming import Warmth
from hugealign.system import kernel, memory


@pytest.mark.parametrize(
    ("answer", "mode", "free", "knows", "code", "facts"),
    [
        (errno.EINVAL, "deny", 9, True, "thp.shmem-denied", {}),
        (errno.EINVAL, "never", 0, True, "memory.fragmented", {"page_size": 2 << 20}),
        (errno.ENOMEM, "never", 9, True, "thp.refused", {"error": "ENOMEM"}),
        (errno.EINVAL, "never", 9, False, "thp.no-collapse", {}),
        (errno.EINVAL, "never", 9, True, "thp.refused", {"error": "EINVAL"}),
        (0, "never", 9, True, "thp.partial", {"huge": 0, "windows": 2}),
    ],
)
def test_copy(
    monkeypatch: pytest.MonkeyPatch, answer: int, mode: str, free: int, knows: bool, code: str, facts: dict[str, object]
) -> None:
    monkeypatch.setattr(kernel, "huge_page_size", lambda: 2 << 20)
    monkeypatch.setattr(kernel, "thp_mode", lambda _: mode)
    monkeypatch.setattr(memory, "free_huge_pages", lambda: free)
    monkeypatch.setattr(warming, "collapses", lambda: knows)
    result = diagnose.after_copying(Warmth((False, False), collapse=answer), memory.limit_hits())
    assert (result.code, result.facts) == (code, facts)
