"""perf.data with branch stacks, read by the real perf, by addresses and by names.

The recordings are made by tests/commands/branchdata.py.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from hugealign.elf.symbols import read_functions
from tests.commands import branchdata
from tests.commands.profiles import arcs, functions_of, load, named
from tests.support import HUGEALIGN, run

BASE = 0x5555_5555_4000
pytestmark = pytest.mark.skipif(not shutil.which("perf"), reason="no perf")


def linked(prog: Path, directory: Path, build_id: str) -> Path:
    """Link the program again, with another build-id."""
    directory.mkdir(exist_ok=True)
    objects = [prog.with_name("main.o"), prog.with_name("other.o")]
    subprocess.run(["gcc", *objects, f"-Wl,--build-id={build_id}", "-o", directory / prog.name], check=True)
    return directory / prog.name


def record(data: Path, program: Path, build_id: str = "", times: int = 1) -> None:
    """Write seven times: main calls hot, which jumps inside of itself, calls the C library, and comes back from it.

    The program is mapped so many *times*.
    """
    functions = read_functions(program)
    hot, main = (BASE + functions.starts[functions.by_name[name][0]] for name in ("hot", "main"))
    text = functions.image.text_segments[0]
    elsewhere = 0x7FFF_F7DE_0000
    stack = [(elsewhere + 9, hot + 20), (hot + 15, elsewhere), (hot + 9, hot + 2), (main + 5, hot)]
    mapped = BASE + text.p_vaddr, text.p_memsz, text.p_offset
    branchdata.write(data, program, mapped, [stack] * 7, bytes.fromhex(build_id), times=times)


def check(data: Path, program: Path) -> list[str]:
    """Check what is read, and return what is said of it."""
    functions = functions_of(program)
    profile, matched, _ = load(data, program)
    assert named(matched.samples, functions)["main"] == 7
    assert named(matched.samples, functions)["hot"] >= 14
    assert {*named(matched.samples, functions)} == {"main", "hot"}
    main, hot = (functions.by_name[name][0] for name in ("main", "hot"))
    assert matched.arcs == {(main, hot, 5): 7}
    assert profile.foreign == 7
    assert not profile.bad
    return profile.notes


def test_of_this_build(prog: Path, tmp_path: Path) -> None:
    record(tmp_path / "data", prog, functions_of(prog).build_id)
    assert check(tmp_path / "data", prog) == []


@pytest.mark.usefixtures("any_caller")
@pytest.mark.parametrize("known", [True, False])
def test_stacks_of_calls(prog: Path, tmp_path: Path, known: bool) -> None:
    """`perf record --call-graph lbr`: no jumps, and the sample lies in the function that was called last."""
    functions = functions_of(prog)
    main, hot = (BASE + functions.starts[functions.by_name[name][0]] for name in ("main", "hot"))
    text = functions.image.text_segments[0]
    mapped = BASE + text.p_vaddr, text.p_memsz, text.p_offset
    build_id = bytes.fromhex(functions.build_id) if known else b""
    branchdata.write(tmp_path / "data", prog, mapped, [[(main + 5, hot)]] * 7, build_id, calls=True)
    profile, matched, _ = load(tmp_path / "data", prog)
    assert named(matched.samples, functions) == {"hot": 7, "main": 0}
    assert arcs(matched, functions) == {("main", "hot"): 7}
    assert not profile.foreign + profile.bad
    assert bool(profile.notes) != known


def test_of_this_build_with_a_short_build_id(prog: Path, tmp_path: Path) -> None:
    """perf before 5.12 fills it up with zeros; LLD's usual one is of 8 bytes."""
    program = linked(prog, tmp_path / "short", "0x572ac72487ae1966")
    record(tmp_path / "data", program, "572ac72487ae1966")
    output = subprocess.run(
        ["perf", "buildid-list", "-i", tmp_path / "data"], capture_output=True, text=True, check=True
    )
    assert output.stdout.startswith("572ac72487ae1966" + "0" * 24)
    assert check(tmp_path / "data", program) == []
    other = linked(prog, tmp_path / "other", "0x572ac72487ae196600ff")
    assert "by name" in load(tmp_path / "data", other)[0].notes[0]


def test_of_this_build_with_a_long_build_id(prog: Path, tmp_path: Path) -> None:
    """perf keeps 20 bytes of it."""
    build_id = "ab" * 24
    program = linked(prog, tmp_path / "long", f"0x{build_id}")
    record(tmp_path / "data", program, build_id[:40])
    assert check(tmp_path / "data", program) == []


def test_by_name(prog: Path, tmp_path: Path) -> None:
    """The program is still there; that of -b is another build."""
    program = linked(prog, tmp_path / "of (old)", "none")
    record(tmp_path / "data", program)
    [note] = check(tmp_path / "data", prog)
    assert "by name" in note
    words = [HUGEALIGN, "order", tmp_path / "data", "-b", prog, "--windows=7"]
    assert "--old-binary" in run(*words, check=True).stderr
    another = linked(prog, tmp_path / "another", "0x34")
    done = run(*words, "--old-binary", another, check=True)
    assert "matched by name" in done.stderr  # that one is not it either
    done = run(HUGEALIGN, "map", tmp_path / "data", "-b", prog, check=True)
    assert "matched by name" in done.stderr
    done = run(*words[:-1], "--windows=0")
    assert done.returncode == 1
    assert "on small pages an order from fewer than 100 can miss more often than no order, and no window" in done.stderr


@pytest.mark.parametrize("build_id", ["none", "0x12"])
def test_of_a_program_that_is_gone(prog: Path, tmp_path: Path, build_id: str) -> None:
    """Recorded elsewhere, without a build-id: perf finds no names, the addresses of the file of that name will do."""
    program = linked(prog, tmp_path / "there", "none")
    here = linked(prog, tmp_path / "here", build_id)
    record(tmp_path / "data", program)
    program.unlink()
    [note] = check(tmp_path / "data", here)
    assert f"{program}, which is not on this machine" in note
    assert "addresses" in note


def test_a_long_recording_of_a_program_that_is_gone(prog: Path, tmp_path: Path) -> None:
    """The first mapping tells, and perf is stopped there: it would print more than a pipe holds."""
    program = linked(prog, tmp_path / "there", "none")
    record(tmp_path / "data", program, times=30_000)
    program.unlink()
    [note] = check(tmp_path / "data", prog)
    assert f"{program}, which is not on this machine" in note


def test_of_another_build_that_is_gone(prog: Path, tmp_path: Path) -> None:
    """Its build-id says that the addresses are not those of this one."""
    program = linked(prog, tmp_path / "there", "0x34")
    record(tmp_path / "data", program, "34")
    program.unlink()
    profile, matched, _ = load(tmp_path / "data", prog)
    assert "by name" in profile.notes[0]
    assert not arcs(matched, functions_of(prog))
    assert not matched.samples
