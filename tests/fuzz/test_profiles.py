"""The damaged profiles of the fuzzing reach every reader that is ours."""

import random
import tempfile
from pathlib import Path

from tests.fuzz import files, profiles


def test_every_reader_is_reached() -> None:
    functions = files.program()[1]
    chance = random.Random(7)
    with tempfile.TemporaryDirectory() as work:
        path = Path(work) / "x"
        found = set()
        for case in range(1600):
            path.write_bytes(files.profile(chance))
            form = profiles.WITHOUT_TOOLS[case % len(profiles.WITHOUT_TOOLS)] if case % 5 == 0 else None
            found.add(profiles.check(path, functions, form))
    assert found >= {*profiles.WITHOUT_TOOLS, "refused"}
