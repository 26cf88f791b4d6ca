"""Names that try to break out of a report, of files that are there."""

from pathlib import Path

import pytest

from tests.support import HUGEALIGN, run
from tests.unit.verification.test_formats import FORMS, NAMES


@pytest.mark.parametrize("form", FORMS)
def test_hostile_names_of_real_files(form: str, tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_text("no program")
    done = run(HUGEALIGN, "verify", "--format", form, "--", *NAMES, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (3, "")
    _, read, shown = FORMS[form]
    assert read(done.stdout) == [shown(name) for name in NAMES]
