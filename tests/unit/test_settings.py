"""The HUGEALIGN_* variables."""

import pytest

from hugealign.errors import UsageError
from hugealign.settings import OWN, from_environ


def test_settings() -> None:
    settings = from_environ({"HUGEALIGN_PAGE_SIZE": "32M", "HUGEALIGN_ONLY": "a::b*", "HUGEALIGN_MIN_TEXT": ""})
    assert (settings.page_size, settings.only, settings.min_text) == (32 << 20, ("a", "b*"), OWN)
    for name in ("PAGE_SIZE", "MIN_TEXT", "CHECK", "DEBUG"):
        with pytest.raises(UsageError, match=f"HUGEALIGN_{name}"):
            from_environ({f"HUGEALIGN_{name}": "nonsense"})
