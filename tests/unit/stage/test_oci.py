"""The hook of container engines: it has little time."""

import fcntl
import os
import time
from pathlib import Path
from typing import Any

import pytest

from hugealign.regular import lock
from hugealign.stage import oci, store
from hugealign.stage.oci import Bound, Container


def test_hook_does_not_wait_longer_than_an_engine_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody keeps the store locked; another program would have to wait as well."""
    for name in ("a", "b", "lock"):
        (tmp_path / name).write_text("x")
    monkeypatch.setattr(oci, "_SECONDS", 0.5)
    tried = []

    def stage(path: str, *_: Any, **__: Any) -> store.Staged:
        tried.append(path)
        if len(tried) == 1:
            return store.Staged(path, store.NO_WINDOW)
        with (tmp_path / "lock").open() as file:
            lock(file.fileno())
        raise AssertionError

    monkeypatch.setattr(store, "stage", stage)
    with (tmp_path / "lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        began = time.monotonic()
        found = oci.bind(Container(os.getpid(), str(tmp_path), programs=("/lock", "/a", "/b")))
    late = "no time left: the hook takes 0.5 s at most"
    assert found == [
        Bound("/lock", reason="its text has no whole window"),
        Bound("/a", reason=late),
        Bound("/b", reason=late),
    ]
    assert tried == [f"{tmp_path}/lock", f"{tmp_path}/a"]
    assert time.monotonic() - began < 30
