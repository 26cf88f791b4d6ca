"""Files of the distribution's packages are not to be changed in place."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hugealign.system.packages import packaged
from tests.support import HUGEALIGN, need, run

PYTHON = os.path.realpath("/usr/bin/python3")


def test_packages_own_what_dpkg_says(tmp_path: Path) -> None:
    need("dpkg")
    for path in (PYTHON, os.path.realpath("/bin/sh"), str(tmp_path), "/usr/bin/no such"):
        output = subprocess.run(["dpkg", "-S", path], check=False, capture_output=True)
        merged = subprocess.run(["dpkg", "-S", path.removeprefix("/usr")], check=False, capture_output=True)
        assert packaged(path) is (0 in (output.returncode, merged.returncode)), path


def test_a_file_of_a_package_is_fixed_elsewhere(tmp_path: Path) -> None:
    if not packaged(PYTHON):
        pytest.skip("Python is of no package")
    shutil.copy(PYTHON, tmp_path / "python3")
    words = {}
    for path in (PYTHON, str(tmp_path / "python3")):
        result = json.loads(run(HUGEALIGN, "verify", "--json", path).stdout)["files"][0]["diagnoses"]
        words[path] = {word for item in result for word in (item["remedy"] or {"argv": []})["argv"]}
    assert "--in-place" not in words[PYTHON]
    assert "--in-place" in words[str(tmp_path / "python3")]
