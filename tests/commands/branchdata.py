"""A perf.data with branch stacks, written by hand: there is no branch recorder where these tests run.

Only the recording is a stand-in: the real perf reads the file.  Its layout is in Linux's
tools/perf/Documentation/perf.data-file-format.txt and include/uapi/linux/perf_event.h.
"""

import struct
from collections.abc import Sequence
from pathlib import Path

PID = 77
_MMAP2, _COMM, _SAMPLE, _BUILD_ID = 10, 3, 9, 67
_USER, _EXECUTABLE = 2, 1 << 5 | 1 << 8 | 1 << 9 | 1 << 23  # misc; exclude_kernel, mmap, comm, mmap2
_IP, _TID, _CALLCHAIN, _BRANCH_STACK = 1, 2, 1 << 5, 1 << 11
_ANY, _USER_CALLS, _PREDICTED = 8, 1 | 1 << 11, 2
_IN_USER = (1 << 64) - 512  # PERF_CONTEXT_USER
_FEATURE_BUILD_ID = 2


def write(
    path: Path, program: Path, mapped: tuple[int, int, int], stacks: Sequence[Sequence[tuple[int, int]]],
    build_id: bytes = b"", calls: bool = False, times: int = 1,
) -> None:  # fmt: skip
    """Write samples with these *stacks* of branches, (from, to), in *program*, which is *mapped*: start, size, offset.

    A *build_id* is given 20 bytes, without its length, as perf before 5.12 does.  *calls*: as `--call-graph lbr` does,
    the branches are the calls that have not returned, the last one first, and ten bytes later the sample was taken.
    The mapping is there so many *times*.
    """
    start, size, offset = mapped
    samples = _IP | _TID | _BRANCH_STACK | (_CALLCHAIN if calls else 0)
    attributes = struct.pack("<IIQQQQQ", 0, 112, 0, 4000, samples, 0, _EXECUTABLE)
    attributes += struct.pack("<IIQQQ", 0, 0, 0, 0, _USER_CALLS if calls else _ANY) + bytes(112 - 72 - 8)
    name = bytes(program)
    data = _event(_COMM, struct.pack("<II", PID, PID) + _padded(b"prog"))
    data += times * _event(
        _MMAP2, struct.pack("<IIQQQIIQQII", PID, PID, start, size, offset, 8, 1, 4711, 0, 5, 2) + _padded(name)
    )
    for branches in stacks:
        stack = b"".join(struct.pack("<QQQ", *branch, _PREDICTED) for branch in branches)
        at = branches[0][1] + 10 * calls
        chain = struct.pack("<QQQ", 2, _IN_USER, at) if calls else b""
        data += _event(_SAMPLE, struct.pack("<QII", at, PID, PID) + chain + struct.pack("<Q", len(branches)) + stack)
    listed = _event(_BUILD_ID, struct.pack("<i", -1) + build_id.ljust(24, b"\0") + name.ljust(256, b"\0"))
    listed = listed if build_id else b""
    begin = 104 + 112 + 16
    features = 1 << _FEATURE_BUILD_ID if build_id else 0
    header = b"PERFILE2" + struct.pack("<QQ", 104, 112 + 16)
    header += struct.pack("<QQQQQQ", 104, 112 + 16, begin, len(data), 0, 0) + struct.pack("<QQQQ", features, 0, 0, 0)
    table = struct.pack("<QQ", begin + len(data) + 16, len(listed)) if build_id else b""
    path.write_bytes(header + attributes + bytes(16) + data + table + listed)


def _event(kind: int, body: bytes) -> bytes:
    return struct.pack("<IHH", kind, _USER, 8 + len(body)) + body


def _padded(name: bytes) -> bytes:
    return name + bytes(8 - len(name) % 8)
