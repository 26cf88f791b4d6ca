"""Hardware events, on a mock of perf_event_open: the machines of these tests have no counters."""

import errno
import os
import struct
from collections import Counter
from collections.abc import Callable

import pytest

from hugealign.diagnosis.values import Remedy
from hugealign.process import command_samples, perf_events
from hugealign.process.command_samples import CommandSamples
from hugealign.process.perf_events import CYCLES, INSTRUCTIONS, Counters, raw
from hugealign.system import hardware_events as events
from hugealign.system import processors as table
from hugealign.system import textcosts
from hugealign.watch import advise
from hugealign.watch.advise_verdict import Answer, Entries


class MockEvents:
    """Stands for perf_event_open(2): what is requested, and descriptors that answer as the kernel does."""

    def __init__(self, values: dict[tuple[int, int], tuple[int, int, int]]) -> None:
        self.values = values
        self.asked: list[tuple[int, int, int]] = []

    def __call__(self, attributes: bytes, thread: int, _cpu: int = -1) -> int:
        kind, size, config, frequency, sampled, form, flags = struct.unpack("=IIQQQQQ16x", attributes)
        assert (size, frequency, sampled, form) == (64, 0, 0, 3)
        assert flags == 1 << 1 | 1 << 5 | 1 << 6  # children too, user space alone
        self.asked.append((kind, config, thread))
        if (kind, config) not in self.values:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))  # as on a machine without that event
        reading, writing = os.pipe()
        os.write(writing, struct.pack("=QQQ", *self.values[kind, config]))
        os.close(writing)
        return reading


def test_values_are_scaled_to_the_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    mock = MockEvents({CYCLES: (1000, 10, 10), raw(0x1085): (20, 10, 5), INSTRUCTIONS: (7, 10, 0)})
    monkeypatch.setattr(perf_events, "open_event", mock)
    counting = Counters(os.getpid(), [CYCLES, raw(0x1085), INSTRUCTIONS])
    threads = len(os.listdir("/proc/self/task"))
    assert counting.read() == (1000 * threads, 40 * threads, 0)
    counting.close()
    assert mock.asked[0] == (0, 0, os.getpid())


def test_events_that_are_not_there_are_an_error_and_leave_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_events, "open_event", MockEvents({CYCLES: (1, 1, 1)}))
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="No such file"):
        Counters(os.getpid(), [CYCLES, raw(0x1085)])
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.mark.parametrize("cpu", [name for item in events.EVENTS for name in item.cpus])
def test_each_processor_of_the_table_is_counted(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cpu in [row.name for row in table.CPUS]
    result = events.of(cpu)
    assert result
    values = {CYCLES: (100_000, 1, 1), INSTRUCTIONS: (200_000, 1, 1)}
    values |= {raw(event.config): (300, 1, 1) for event in result.misses}
    if result.cycles:
        values[raw(result.cycles.config)] = (2500, 1, 1)
    monkeypatch.setattr(perf_events, "open_event", MockEvents(values))
    held = Entries(64, 8, cpu, "made up")
    counting = advise.start_counters(os.getpid(), held)
    assert counting
    counted = advise.read_counters(counting, held)
    counting.close()
    assert counted
    assert counted.misses == pytest.approx(3.0)
    assert counted.cycles == (pytest.approx(0.025) if result.cycles else None)
    assert counted.source.startswith("Linux, tools/perf/pmu-events/arch/")


def test_published_encodings() -> None:
    """As perf writes them: cpu/event=0x85,umask=0x10,cmask=1/ is 0x1001085."""
    skylake, zen5 = events.of("skylake"), events.of("zen5")
    assert skylake
    assert skylake.cycles
    assert zen5
    assert skylake.cycles.config == 0x1001085
    assert [event.config for event in zen5.misses] == [0x84, 0xF85]


def test_processor_without_events_and_machine_without_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_events, "open_event", MockEvents({}))
    assert advise.start_counters(os.getpid(), Entries(64, 8, "kunpeng920", "")) is None
    assert advise.start_counters(os.getpid(), Entries(64, 8, "skylake", "")) is None


def test_command_is_counted_from_its_first_instruction_on(monkeypatch: pytest.MonkeyPatch) -> None:
    mock = MockEvents(
        {CYCLES: (10**9, 1, 1), INSTRUCTIONS: (10**9, 1, 1)}
        | {raw(config): (4 * 10**7, 1, 1) for config in (0x1001085, 0x2085, 0x185)}
    )
    pages = CommandSamples(Counter({("/srv/app", 1): 9}), 0)

    def follow(
        words: list[str], _limit: float | None, _frequency: int, waiting: Callable[[int], None]
    ) -> CommandSamples:
        assert words == ["app"]
        waiting(os.getpid())
        return pages

    monkeypatch.setattr(perf_events, "open_event", mock)
    monkeypatch.setattr(command_samples, "sample_command", follow)
    monkeypatch.setattr(advise, "entries_of", lambda _: Entries(128, 8, "skylake", "made up"))
    monkeypatch.setattr(textcosts, "known", lambda: None)
    before = len(os.listdir("/proc/self/fd"))
    result = advise.advise(["app"])
    assert len(os.listdir("/proc/self/fd")) == before
    assert result.judged.answer == Answer.YES
    assert result.judged.share == pytest.approx(0.04)
    assert result.counted
    assert result.judged.diagnosis.remedy == Remedy(
        "none-known"
    )  # there is no such file that a copy could give windows
    # For another processor its own counters say nothing.
    assert advise.advise(["app"], advise.AdviseOptions(cpu="skylake")).counted is None
