"""The tests of perf.data with newer versions of perf than this system has; newer.py fetches them."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hugealign.profile.model import ProfileError
from tests.commands import test_profile_branches, test_profile_tools
from tests.commands.profiles import SAMPLES, functions_of, load, named
from tests.link import newer

pytestmark = pytest.mark.matrix

# Every test of perf.data is a test here too, with the fixtures below.
for module, word in ((test_profile_branches, "test_"), (test_profile_tools, "perf_data")):
    for name, function in vars(module).items():
        if name.startswith("test_") and word in name:
            globals()[name] = function


@pytest.fixture(scope="module", params=newer.SUITES, autouse=True)
def perf(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Put the perf of a newer suite in front of PATH."""
    if reason := newer.unavailable(request.param):
        pytest.skip(reason)
    result = newer.TARGET / request.param / "perf"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(result), prepend=os.pathsep)
        yield result / "perf"


@pytest.fixture(scope="module")
def made(perf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The samples of test_profile_tools, made by *perf*."""
    assert shutil.which("perf") == str(perf)
    directory = tmp_path_factory.mktemp("made")
    subprocess.run([SAMPLES / "make.sh", directory], check=True, capture_output=True)
    return directory


@pytest.mark.parametrize("data", ["flat.data", "stacks.data"])
def test_an_older_perf_cannot_read_it(
    perf: Path, made: Path, tmp_path: Path, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is advised then does the same as reading it."""
    before = load(made / data, made / "prog")[1]
    printed = ["script", "-F", "pid,ip", "--show-mmap-events", "--show-task-events"]
    text = subprocess.run([perf, *printed, "-i", made / data], capture_output=True, check=True).stdout
    (tmp_path / "text").write_bytes(text)
    monkeypatch.setenv("PATH", os.environ["PATH"].partition(os.pathsep)[2])
    assert shutil.which("perf") != str(perf)
    with pytest.raises(ProfileError, match=" ".join(["perf", *printed])):
        load(made / data, made / "prog")
    after = load(tmp_path / "text", made / "prog")[1]
    assert named(after.samples, functions_of(made / "prog")) == named(before.samples, functions_of(made / "prog"))
    assert after.arcs == before.arcs
