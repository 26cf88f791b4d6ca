"""The functions behind `hugealign verify`, as others would call them."""

import shutil
from pathlib import Path

from hugealign import Policy, Selection, VerifyOptions, compare, verify

TRUE = Path("/bin/true")
STRICT = VerifyOptions(Policy(min_text=0))  # /bin/true has some KiB of text, which no window holds


def test_one_file() -> None:
    for path in (TRUE, str(TRUE), [TRUE], iter([str(TRUE)])):
        result = verify(path)
        assert (result.status, [file.verdict for file in result.files]) == (0, ["ok"])
        assert result.coverage().text > 0


def test_what_fails() -> None:
    result = verify(TRUE, STRICT)
    assert result.status == 1
    assert "HA001" in {diagnosis.code for diagnosis in result.files[0].diagnoses}
    assert verify(TRUE, STRICT.changed(selection=Selection(fail_on="never"))).status == 0


def test_what_cannot_be_checked_is_no_exception(tmp_path: Path) -> None:
    result = verify([tmp_path / "missing", tmp_path])
    assert result.status == 3
    problems = [file.problem for file in result.files]
    assert [problem and problem.code for problem in problems] == ["file.unreadable", "file.directory"]
    assert verify([]).status == 3


def test_a_directory(tmp_path: Path) -> None:
    shutil.copy(TRUE, tmp_path / "a")
    (tmp_path / "b").write_text("text " * 50)
    for jobs in (1, 2):
        result = verify(tmp_path, VerifyOptions(recursive=True, jobs=jobs))
        assert [file.path for file in result.files] == [str(tmp_path / "a")]
        assert result.skipped == {"others": 1}


def test_before_and_after() -> None:
    compared = compare(TRUE, str(TRUE), STRICT)
    assert (compared.status, [pair.verdict for pair in compared.pairs]) == (0, ["same"])
