"""The file format of traces: what is written is read, by Python and by C, and damage is reported."""

import json
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hugealign.errors import HugealignError
from hugealign_lab.replay import Replay
from hugealign_lab.tracefile import MAGIC, TraceError, open_trace
from lab.tests.reference import decode
from lab.tests.traces import FILES, write_trace
from tests.support import worded

BLOCKS = [(0x1000 + 64 * n, 1, 60, 9) for n in range(20)]
IDS = st.lists(st.integers(1, len(BLOCKS)), max_size=60)
STREAMS = st.lists(st.lists(IDS, min_size=1, max_size=3), max_size=3)
FIXTURE = (HealthCheck.function_scoped_fixture,)


@settings(max_examples=60, deadline=None, suppress_health_check=FIXTURE)
@given(streams=STREAMS, raw=st.booleans())
def test_what_is_written_is_read(streams: list[list[list[int]]], raw: bool, tmp_path: Path) -> None:
    trace = open_trace(str(write_trace(tmp_path / "t", BLOCKS, streams, raw)))
    assert [list(decode(trace, chunks)) for chunks in trace.streams] == streams
    assert list(trace.block_rows())[1:] == BLOCKS
    assert trace.description.files == FILES
    flat = [number for parts in streams for ids in parts for number in ids]
    with Replay(trace) as replay:
        replay.run()
        assert replay.executions() == [flat.count(number) for number in range(len(BLOCKS) + 1)]
        assert replay.totals()[:2] == (len(flat), 9 * len(flat))


def _both(trace_path: Path) -> tuple[object, object]:
    """What Python and C make of a trace: how often each block ran, or that it is damaged."""
    trace = open_trace(str(trace_path))
    slow: object
    fast: object
    try:
        ids = [number for chunks in trace.streams for part in decode(trace, chunks) for number in part]
        slow = [ids.count(number) for number in range(trace.block_count)]
    except TraceError:
        slow = "damaged"
    with Replay(trace) as replay:
        try:
            replay.run()
            fast = replay.executions()
        except TraceError:
            fast = "damaged"
    return slow, fast


@settings(max_examples=150, deadline=None, suppress_health_check=FIXTURE)
@given(data=st.data(), streams=STREAMS)
def test_any_byte_may_be_wrong(data: st.DataObject, streams: list[list[list[int]]], tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t", BLOCKS, streams)
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw[: data.draw(st.sampled_from([len(raw), len(raw) - 1, len(raw) // 2]))])
    try:
        slow, fast = _both(path)
    except HugealignError:
        return
    assert slow == fast


def test_damaged_chunks_are_found_by_both(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t", BLOCKS, [[[1, 2, 3, 4]]])
    raw = bytearray(path.read_bytes())
    at = len(MAGIC) + 16
    raw[at] = 1  # a guess is right, where there has been none to learn from
    path.write_bytes(raw)
    assert _both(path) == ("damaged", "damaged")


def test_a_block_without_instructions(tmp_path: Path) -> None:
    with pytest.raises(HugealignError, match="a block is out of range"):
        open_trace(str(write_trace(tmp_path / "t", [(0x1000, 1, 64, 0)], [[[1]]])))


def _resealed(raw: bytes, change: dict[str, object]) -> bytes:
    """Change the description of a trace, with checksum and sizes to match."""
    end, size, table = (int.from_bytes(raw[at : at + 8], "little") for at in range(len(raw) - 48, len(raw) - 24, 8))
    document = json.loads(zlib.decompress(raw[end : end + size])) | change
    text = zlib.compress(json.dumps(document).encode())
    rest = raw[end + size : end + size + table]
    sizes = b"".join(n.to_bytes(8, "little") for n in (end, len(text), table))
    return raw[:end] + text + rest + sizes + zlib.crc32(text + rest).to_bytes(4, "little") + raw[-20:]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"events": 5}, "chunks are missing"),
        ({"events": True}, "a number in its description"),
        ({"program": 3}, "a number in its description"),
        ({"files": []}, "names no files"),
        ({"files": [{"path": 1, "identity": "", "segments": []}]}, "a text in its description"),
        ({"files": [{"path": ""}]}, "another form"),
        ({"files": FILES[:1], "program": 0}, "a block is out of range"),
        ({"command": 7}, "another form"),
    ],
)
def test_a_description_that_lies(change: dict[str, object], message: str, tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t", BLOCKS, [[[1, 2, 3, 4]]])
    if change.get("files") == FILES[:1]:
        change["files"] = [{"path": "", "identity": "", "segments": []}]
    path.write_bytes(_resealed(path.read_bytes(), change))
    with pytest.raises(HugealignError, match=message):
        open_trace(str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"\x7fELF" + bytes(100), "is not a trace"),
        (MAGIC, "is cut short"),
        (MAGIC + bytes(5000), "is cut short"),
    ],
)
def test_other_files(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(content)
    with pytest.raises(HugealignError, match=message):
        open_trace(str(path))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(HugealignError, match="No such file"):
        open_trace(str(tmp_path / "none"))
    with pytest.raises(HugealignError, match=f"directory|{worded('file.special')}"):
        open_trace(str(tmp_path))


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """Packed zeros of a thousand times the size: reading stops at what a trace can have."""
    path = write_trace(tmp_path / "t", BLOCKS, [[[1]]])
    raw = path.read_bytes()
    end, size = (int.from_bytes(raw[at : at + 8], "little") for at in (len(raw) - 48, len(raw) - 40))
    bomb = zlib.compress(bytes(1 << 28), 1)
    text = raw[end : end + size]
    sizes = b"".join(n.to_bytes(8, "little") for n in (end, size, len(bomb)))
    path.write_bytes(raw[:end] + text + bomb + sizes + zlib.crc32(text + bomb).to_bytes(4, "little") + raw[-20:])
    with pytest.raises(HugealignError, match="larger than any"):
        open_trace(str(path))
