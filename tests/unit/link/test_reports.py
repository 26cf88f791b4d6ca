"""Names of files in what linkers write."""

from pathlib import Path

from hugealign.link import reports

NAMES = {"/proc/self/fd/6": "/a b/$pad#.o", "/proc/self/fd/63": "two.o"}


def test_names() -> None:
    text = b"/proc/self/fd/6: /proc/self/fd/63 /proc/self/fd/631 /proc/self/fd/7 \xff"
    expected = b"/a b/$pad#.o: two.o /proc/self/fd/631 /proc/self/fd/7 \xff"
    assert reports.renamed(text, NAMES) == expected
    assert reports.renamed(text, NAMES, dependencies=True) == expected.replace(b"/a b/$pad#.o", rb"/a\ b/$$pad\#.o")


def test_names_that_are_not_text() -> None:
    assert reports.renamed(b"/proc/self/fd/6", {"/proc/self/fd/6": "\udcff.o"}, dependencies=True) == b"\xff.o"


def test_files(tmp_path: Path) -> None:
    """What is not a file, or cannot be written, is left as it is."""
    (tmp_path / "out.d").write_bytes(b"out: /proc/self/fd/63")
    for name in ("out.d", "none.d", "", "."):
        reports.rename_in(str(tmp_path / name), NAMES, dependencies=True)
    assert (tmp_path / "out.d").read_bytes() == b"out: two.o"
    assert [path.name for path in tmp_path.iterdir()] == ["out.d"]
    reports.rename_in("/dev/null", NAMES, dependencies=False)
    reports.rename_in("a\0b", NAMES, dependencies=False)
