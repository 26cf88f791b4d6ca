"""The names of copies."""

import os

import pytest

from hugealign.run import copies
from hugealign.run.copies import FIXED


@pytest.mark.parametrize("fixed", [False, True])
def test_an_identity_is_known_by_its_form(fixed: bool) -> None:
    assert copies.is_identity(copies.identity(os.stat("/bin/sh"), fixed))


@pytest.mark.parametrize("name", ["", "lock", "path", "for", "other.db", "1-2-3-4-5", "1--3-4", "1-2-3-x", FIXED])
def test_other_names_are_not_ours(name: str) -> None:
    assert not copies.is_identity(name)
