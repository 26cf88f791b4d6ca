"""What steps gave is kept, and belongs to one version."""

import time
from pathlib import Path

import pytest

from examples.servers import steps as module
from examples.servers.steps import Failed, Steps


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    """A run in a directory of its own."""
    for name in ("stamps", "logs"):
        (tmp_path / name).mkdir()
    return Steps(tmp_path, "nobody")


def test_a_broken_promise_is_kept_for_the_report(steps: Steps, capsys: pytest.CaptureFixture[str]) -> None:
    steps.promise(True, "this")
    steps.promise(False, "that")
    assert steps.broken == ["that"]
    assert capsys.readouterr().err == "BROKEN: that\n"


def test_results_of_another_version_are_not_resumed(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    (steps.build / "stamps" / "source").write_text("3\nnull\n")
    for _ in range(2):
        steps.resume()  # the source alone is of every version
        steps.step("order", "ordering", time.monotonic)
    monkeypatch.setattr(module, "version", lambda: "another")
    with pytest.raises(Failed, match=r"another version.*--clean"):
        steps.resume()
    (steps.build / "stamps" / "order").unlink()
    steps.resume()
    (steps.build / "stamps" / ".version").unlink()  # as older versions left it
    steps.step("order", "ordering", time.monotonic)
    with pytest.raises(Failed):
        steps.resume()


def test_the_version_is_that_of_what_results_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        "bin/tool",
        "hugealign/ordering/cdsort.c",
        "examples/a/steps.py",
        "examples/a/server.toml",
        "examples/README.md",
    )
    paths = [tmp_path / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("before")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    seen = [module.version()]
    for path in paths:
        path.write_text("after")
        seen.append(module.version())
    assert len(set(seen[:5])) == 5
    assert seen[5] == seen[4]
