"""The kernel's records of a command, in any order: which page a sample is on."""

import struct

from hugealign.process.command_samples import _COMM, _COMM_EXEC, _FORK, _MMAP2, Records
from hugealign.process.perf_events import LOST, SAMPLE

Record = tuple[int, int, bytes]


def sample(time: int, pid: int, address: int, fault: int = 0) -> Record:
    return SAMPLE, 0, struct.pack("=QIIQQ", address, pid, pid, time, fault)


def mapping(time: int, pid: int, start: int, length: int, offset: int, name: bytes) -> Record:
    head = struct.pack("=IIQQQIIQQII", pid, pid, start, length, offset, 8, 1, 5, 0, 5, 2)
    return _MMAP2, 0, head + name + bytes(8 - len(name) % 8) + struct.pack("=IIQ", pid, pid, time)


def fork(time: int, pid: int, parent: int) -> Record:
    return _FORK, 0, struct.pack("=IIIIQ", pid, parent, pid, parent, time) + struct.pack("=IIQ", pid, pid, time)


def exec_(time: int, pid: int) -> Record:
    return _COMM, _COMM_EXEC, struct.pack("=II8s", pid, pid, b"new") + struct.pack("=IIQ", pid, pid, time)


def test_samples_are_resolved_in_the_order_of_their_times() -> None:
    records = Records()
    records.take(
        [
            sample(9, 7, 0x5000),  # after exec
            exec_(8, 7),
            sample(2, 7, 0x1800),
            mapping(1, 7, 0x1000, 0x2000, 0x4000, b"/bin/a"),
            fork(3, 8, 7),
            sample(4, 8, 0x2000),
            sample(4, 7, 0x3000),  # beyond
            mapping(5, 7, 0x1000, 0x1000, 0, b"//anon"),
            sample(6, 7, 0x1000),
            sample(6, 8, 0x1000),
            (LOST, 0, struct.pack("=QQ", 1, 5) + struct.pack("=IIQ", 7, 7, 7)),
        ]
    )
    assert records.pages == {
        ("/bin/a", 4): 2,
        ("/bin/a", 5): 1,
        ("", 3): 1,
        ("", 1): 1,
        ("", 5): 1,
    }
    assert records.lost == 5


def test_batches_go_on_where_the_last_ended() -> None:
    records = Records()
    records.take([mapping(1, 7, 0x1000, 0x2000, 0, b"/bin/a")])
    records.take([sample(2, 7, 0x1000)])
    assert records.pages == {("/bin/a", 0): 1}


def test_faults_of_code_are_counted_and_are_no_samples() -> None:
    records = Records()
    records.take([mapping(1, 7, 0x400000, 0x400000, 0, b"/bin/a")])
    touched = [0x400000, 0x410000, 0x600000, 0x9000_0000]  # two in one window, one in the next, data
    records.take([sample(2 + at, 7, address, address) for at, address in enumerate(touched)])
    records.take([fork(9, 8, 7), sample(10, 8, 0x400000, 0x410000)])
    assert not records.pages
    assert records.faults == {("/bin/a", 0): 1, ("/bin/a", 16): 2, ("/bin/a", 512): 1}
    assert records.windows == {("/bin/a", 0): 2, ("/bin/a", 512): 1}  # a child has faults of its own
    assert records.most == 3
