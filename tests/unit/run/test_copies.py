"""The names of copies."""

import os
from pathlib import Path

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import Diagnosis
from hugealign.io import copying
from hugealign.io.descriptors import using
from hugealign.run import copies, store
from hugealign.run.copies import FIXED, StagedFile


@pytest.mark.parametrize("fixed", [False, True])
def test_an_identity_is_known_by_its_form(fixed: bool) -> None:
    assert copies.is_identity(copies.identity(os.stat("/bin/sh"), fixed))


@pytest.mark.parametrize("name", ["", "lock", "path", "for", "other.db", "1-2-3-4-5", "1--3-4", "1-2-3-x", FIXED])
def test_other_names_are_not_ours(name: str) -> None:
    assert not copies.is_identity(name)


def test_what_fs_verity_guards_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "sealed", lambda _: True)
    with using(os.open("/bin/sh", os.O_RDONLY)) as fd, pytest.raises(RefusalError) as refusal:
        copies.check(StagedFile("/bin/sh", fd, os.fstat(fd), 1))
    assert refusal.value.diagnosis == Diagnosis("copy.sealed", "", {})


def test_what_has_no_path_is_not_copied() -> None:
    first, second = os.pipe()
    with using(first) as file, using(second), pytest.raises(RefusalError) as refusal:
        store.stage_privately(file, "/nonexistent", fix=False)
    assert refusal.value.diagnosis == Diagnosis("file.special", "", {})


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o777])
def test_a_mode_that_changes_before_the_copy_is_complete(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    file.chmod(0o755)
    with using(os.open(file, os.O_RDONLY)) as fd:
        origin = StagedFile(str(file), fd, os.fstat(fd), 1)
        copies.refuse_changed(origin)
        file.chmod(mode)
        with pytest.raises(RefusalError) as refusal:
            copies.refuse_changed(origin)
    assert refusal.value.diagnosis == Diagnosis(copying.CHANGED, "", {})
