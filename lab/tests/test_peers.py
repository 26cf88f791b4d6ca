"""What the comparison with the peers makes of a trace for BOLT."""

from pathlib import Path

from hugealign.elf.image import ET_DYN, PF_R, PF_X, PT_LOAD, Image, Segment
from hugealign.elf.symbols import Functions
from hugealign_lab.tracefile import open_trace
from lab.bench.peers import profiles
from lab.tests.traces import write_trace

#: main: a test, a jump over what follows, which is a nop and a call, and a return; helper: a nop and a return.
CODE = bytes.fromhex("85c0 7406 90 e806000000 c3") + bytes(5) + bytes.fromhex("90c3")
MAIN, HELPER = 0x1000, 0x1010


def test_branches_for_bolt(tmp_path: Path) -> None:
    """A taken branch is B; what runs between two is F; what runs behind a call has the call's block in front of it."""
    program = tmp_path / "program"
    program.write_bytes(bytes(0x1000) + CODE)
    segment = Segment(PT_LOAD, PF_R | PF_X, 0x1000, 0x1000, 0x12, 0x12, 0x1000)
    image = Image(ET_DYN, 62, (segment,), (), 0x1012)
    functions = Functions([MAIN, HELPER], [11, 2], ["main", "helper"], ["", ""], {}, image=image)
    blocks = [(MAIN, 1, 4, 2), (MAIN + 4, 1, 6, 2), (MAIN + 10, 1, 1, 1), (HELPER, 1, 2, 2)]
    trace = open_trace(str(write_trace(tmp_path / "t", blocks, [[[1, 2, 4, 3, 1, 3]]])))
    written = profiles.aggregated(trace, 1, program, functions, tmp_path / "out").read_text().splitlines()
    assert sorted(written) == [
        "B 1002 100a 1 0",  # over the call
        "B 1005 1010 1 0",  # the call
        "B 100a 1000 1 0",
        "B 1011 100a 1 0",  # its return
        "F 1000 1002 1",
        "F 1000 1004 1",  # not jumped
        "F 1004 1005 1",
        "F 100a 100a 2",
        "F 1010 1011 1",
        "f 100a 100a 1",
    ]
