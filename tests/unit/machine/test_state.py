"""The file that holds what is in force on the machine: what is written is read, and nothing else."""

import json
import os
from pathlib import Path

import pytest

from hugealign.diagnosis.refusal import DiagnosedError
from hugealign.io import resources
from hugealign.machine import state
from hugealign.machine.plan import COPIES, HOOK
from hugealign.machine.state import Held, State
from tests.unit.machine.test_plan import part

STATE = State(
    100,
    (
        Held(part("a"), 100, 200, ("1-2-3-4",)),
        Held(part("b.service", how=COPIES), 100, 150),
        Held(part("/c/diff/d", how=HOOK), 100, 150),
    ),
    300,
    "policy.not-toml",
    {"policy.no-room": 3},
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file is, instead of /var/lib."""

    def made(path: str, _: str) -> int:
        os.makedirs(path, exist_ok=True)
        return os.open(path, os.O_RDONLY)

    monkeypatch.setattr(resources, "ROOT_STATE", str(tmp_path))
    monkeypatch.setattr(resources, "made", made)  # it refuses a directory below /tmp
    return tmp_path / "hugealign" / "machine.json"


def test_what_is_written_is_read(place: Path) -> None:
    assert state.read() is None
    state.write(STATE)
    assert (state.read(), place.exists()) == (STATE, True)
    assert (list(STATE.held[:1]), ["b.service"], 6 << 20) == (STATE.in_place(), STATE.services(), STATE.memory)
    assert STATE.hooked() == list(STATE.held[2:])
    state.remove()
    assert not place.parent.exists()


def _changed(**changes: object) -> str:
    return json.dumps({**json.loads(TEXT), **changes})


TEXT = json.dumps(
    {"schema": state.SCHEMA, "since": 1, "held": [], "looked": 0, "failure": "", "left": {}},
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 100_000,
        _changed(schema="hugealign.machine/2"),
        _changed(since="1"),
        _changed(since=-1),
        _changed(since=1 << 70),
        _changed(held=[{}]),
        _changed(held=[{"part": {"files": ["relative"], "how": "in-place"}, "since": 1, "used": 1, "identities": []}]),
        _changed(held=[{"part": {"files": ["/a"], "how": "by-magic"}, "since": 1, "used": 1, "identities": []}]),
        _changed(left=3),
    ],
)
def test_anything_else_is_refused(text: str, place: Path) -> None:
    place.parent.mkdir()
    place.write_text(text)
    with pytest.raises(DiagnosedError) as raised:
        state.read()
    assert (raised.value.diagnosis.code, raised.value.diagnosis.facts) == ("machine.state", {"file": str(place)})


def test_a_file_that_others_may_change_is_refused(place: Path) -> None:
    state.write(STATE)
    place.chmod(0o666)
    with pytest.raises(Exception, match="others may write there"):
        state.read()
