"""The note of a link is read as it was written."""

from pathlib import Path

import pytest

from hugealign.elf.image import Image, Section
from hugealign.elf.notes import NAME, SECTION, BuildNote, read_notes
from hugealign.io.descriptors import file_at


@pytest.mark.parametrize("little", [True, False])
def test_the_note_of_a_link(little: bool, tmp_path: Path) -> None:
    note = BuildNote(2 << 20, 5, 9, 3, padded=True, profile=b"id", functions=7, threshold=512)
    data = note.pack(little)
    path = tmp_path / "note"
    path.write_bytes(data)
    assert len(data) % 4 == 0
    assert data[12:22] == NAME.encode() + b"\0"
    image = Image(3, 62, (), (Section(SECTION, 7, 2, 0, 0, len(data), sh_addralign=4),), len(data), little=little)
    with file_at(path) as fd:
        assert read_notes(fd, image).build == note
        assert read_notes(fd, image.changed(little=not little)).build is None


def test_a_note_of_an_older_link(tmp_path: Path) -> None:
    """It ends with the profile, and does not say up to which tail nothing is padded."""
    new = BuildNote(2 << 20, padded=True, profile=b"identity", threshold=4096)
    data = new.pack()[:-4]
    path = tmp_path / "note"
    path.write_bytes(data[:4] + (int.from_bytes(data[4:8], "little") - 4).to_bytes(4, "little") + data[8:])
    image = Image(3, 62, (), (Section(SECTION, 7, 2, 0, 0, len(data), sh_addralign=4),), len(data))
    with file_at(path) as fd:
        assert read_notes(fd, image).build == new.changed(threshold=0)
