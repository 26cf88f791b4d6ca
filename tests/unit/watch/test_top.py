"""Looking again and again takes one per cent of a processor at most."""

import time

import pytest

from hugealign.system.budget import Budget
from hugealign.watch import survey as module
from hugealign.watch import top
from hugealign.watch.survey import Survey
from hugealign.watch.top import TopOptions, watch


@pytest.mark.parametrize(("burnt", "least"), [(0.0, 5.0), (0.08, 8.0)])
@pytest.mark.parametrize("interval", [None, 0.5])
def test_pauses(burnt: float, least: float, interval: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def survey(*_: object) -> Survey:
        end = time.process_time() + burnt
        while time.process_time() < end:
            pass
        return Survey((), 0, 0, (), 100.0 + len(pauses), burnt)

    monkeypatch.setattr(module, "survey", survey)
    monkeypatch.setattr(top, "of_this_machine", lambda _: Budget(7, "made up", 8))
    monkeypatch.setattr(time, "sleep", pauses.append)
    looks = watch(TopOptions(interval=interval))
    first, second = next(looks), next(looks)
    assert (first.interval, second.interval) == (0, 1)
    if interval is None:
        assert least <= pauses[0] < least + 20
    else:
        assert pauses == [interval]


def test_processor_s_entries_are_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def budget(_: object) -> Budget:
        asked.append(1)
        return Budget(7, "made up", 8)

    monkeypatch.setattr(module, "survey", lambda *_: Survey((), 0, 0, (), 1.0, 0.0))
    monkeypatch.setattr(top, "of_this_machine", budget)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    looks = watch()
    for _ in range(3):
        assert next(looks).budget.windows == 7
    assert asked == [1]
