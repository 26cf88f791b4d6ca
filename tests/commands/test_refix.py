"""examples/fix/hugealign-refix.sh: every line of the list is a file, whatever it looks like."""

import shutil
from pathlib import Path

from tests.support import ROOT, environment, run

SCRIPT = ROOT / "examples" / "fix" / "hugealign-refix.sh"


def test_file_names_are_never_options(tmp_path: Path) -> None:
    recorder = tmp_path / "bin" / "hugealign"
    recorder.parent.mkdir()
    recorder.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >>"{tmp_path}/said"\n[ "$3" != ./-bad ]\n')
    recorder.chmod(0o755)
    names = ["--undo", "-bad", "--", "-o", "a b", "plain"]
    for name in names:
        (tmp_path / name).write_text("x")
    whole = shutil.copy(SCRIPT, tmp_path / "script")
    (tmp_path / "list").write_text("\n".join(["# a comment", "", *names, f"{tmp_path}/plain", "missing"]))
    done = run("sh", whole, tmp_path / "list", cwd=tmp_path, env=environment(PATH=f"{recorder.parent}:/usr/bin:/bin"))
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    output = (tmp_path / "said").read_text().splitlines()
    expected = []
    for name in [*(f"./{name}" for name in names), f"{tmp_path}/plain"]:
        expected += [f"fix --in-place {name}", *([f"warm {name}"] if name != "./-bad" else [])]
    assert output == expected
