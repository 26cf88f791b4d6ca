"""``hugealign simulate``: its output, and what it says to bad input."""

import json
import subprocess
from pathlib import Path

import jsonschema
import pytest

from hugealign.version import __version__
from hugealign_lab import tracefile
from hugealign_lab.files import describe
from lab.tests.traces import write_trace
from tests.support import HUGEALIGN, ROOT, run, worded

SMALL = "--cpu=4k=2,2m=1,l2=4"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    blocks = [(0x1000, 1, 16, 4), (0x2000, 1, 16, 4), (0x3000, 1, 16, 4), (0x700000000000, 0, 8, 4)]
    return write_trace(tmp_path / "a trace", blocks, [[[1, 2, 3] * 30, [4] * 10]])


def test_table(trace: Path) -> None:
    done = run(HUGEALIGN, "simulate", trace, SMALL)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "/bin/program: 100 blocks, 400 instructions, 1 thread\n"
        "10.0 % of the blocks lie outside of files (a JIT?): on 4 KiB pages in every layout\n"
        "\n"
        "layout    CPU             windows          misses           walks      MPKI\n"
        "original  4k=2,2m=1,l2=4        1               2               2     5.000\n"
        "all-4k    4k=2,2m=1,l2=4        0              91               4   227.500\n"
        "all-2m    4k=2,2m=1,l2=4        4               2               2     5.000\n"
    )


def test_curve_has_a_row_for_each_number_of_windows(trace: Path) -> None:
    words = ("--layout", "original", "--windows", "0-2", "--curve")
    lines = run(HUGEALIGN, "simulate", trace, SMALL, *words).stdout.splitlines()
    assert [line.split()[2:4] for line in lines[4:]] == [["0", "91"], ["1", "2"], ["2", "2"]]


def test_json(trace: Path) -> None:
    done = run(HUGEALIGN, "simulate", trace, SMALL, "--cpu", "kunpeng920", "--json")
    assert done.returncode == 2
    done = run(HUGEALIGN, "simulate", trace, "--cpu", "skl", "--json", "--layout", "all-4k")
    schema = json.loads((ROOT / "lab/src/hugealign_lab/simulate-1.schema.json").read_text())
    jsonschema.validate(json.loads(done.stdout), schema)
    assert json.loads(done.stdout) == {
        "tool": {"name": "hugealign", "version": __version__},
        "schema": "hugealign.simulate/1",
        "binary": "/bin/program",
        "command": ["program"],
        "machine": "x86_64",
        "blocks": 100,
        "instructions": 400,
        "threads": 1,
        "from": None,
        "until": None,
        "outside_of_files": 10,
        "cut": None,
        "execs": 0,
        "lost_threads": 0,
        "rows": [{"layout": "all-4k", "cpu": "skylake", "windows": 0, "misses": 4, "walks": 4, "mpki": 10.0}],
    }


def test_the_same_trace_gives_the_same_digits(trace: Path) -> None:
    assert len({run(HUGEALIGN, "simulate", trace, "--curve").stdout for _ in range(3)}) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--windows", "x"], "--windows: not a number"),
        (["--windows", "5-2"], "--windows: not a range"),
        (["--windows", "0-99999999"], "--windows: not a range"),
        (["--windows", "-1"], "--windows: not a number"),
        (["--cpu", "z80"], "unknown CPU z80"),
        (["--cpu", "4k=0,2m=8"], "a first level without entries"),
        (["--cpu", "4k=99999999,2m=8"], "is not a TLB"),
        (["--cpu", "kunpeng920"], "no source gives"),
        (["--layout", "fast"], "--layout: fast: not one of"),
        (["--layout", "order:"], "--layout: order:: not one of"),
        (["--layout", "original:x"], "not one of"),
    ],
)
def test_wrong_usage(words: list[str], message: str, trace: Path) -> None:
    done = run(HUGEALIGN, "simulate", trace, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_trace_that_is_cut_short(trace: Path) -> None:
    trace.write_bytes(trace.read_bytes()[:-1])
    done = run(HUGEALIGN, "simulate", trace)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"hugealign: error: {trace}: is cut short: its end is missing; record it again\n"


def test_a_full_disk(trace: Path) -> None:
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run(
            [HUGEALIGN, "simulate", trace], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 3
    assert done.stderr == "hugealign: error: standard output: cannot be written: No space left on device\n"


# ---- a program that is there


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("program")
    source = "int a(void) { return 1; } int b(void) { return 2; } int main(void) { return a() + b(); }\n"
    (directory / "p.c").write_text(source)
    subprocess.run(["gcc", "-O0", "p.c", "-o", "program"], cwd=directory, check=True)
    subprocess.run(["gcc", "-O1", "p.c", "-o", "other"], cwd=directory, check=True)
    return directory / "program"


@pytest.fixture
def traced(program: Path, tmp_path: Path) -> Path:
    """A trace of that program, made by hand: its first block of text."""
    file = describe(str(program))
    text = next(s for s in file.segments if s.executable)
    path = tmp_path / "t"
    with path.open("wb") as out:
        out.write(tracefile.MAGIC)
        tracefile.write_chunk(out, 1, tracefile.LAST | tracefile.RAW, 1, (1).to_bytes(4, "little"))
        result = tracefile.Description(("program",), "x86_64", (tracefile.File(""), file), 1, 1)
        tracefile.write_end(out, result, bytes(16) + tracefile.BLOCK.pack(text.p_vaddr, 1, 4, 1))
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb # what it does\n\n# nothing\n", None),
        (b"# hugealign.order/1\n# page-size: 2097152\nb\tsamples=3\na\n", None),
        (b"a\nno\n", None),
        (b"x\ny\na\n", "is for another build: 1 of its 3 functions are in"),
        (b"# only words\n", "names no functions"),
        (b"\x00\x01\x02\n", "names no functions"),
        (b"# hugealign.order/1\n# a: b\n@xyz\n", "not a symbol of an order file"),
    ],
)
def test_orders(content: bytes, message: str | None, traced: Path, tmp_path: Path) -> None:
    (tmp_path / "order").write_bytes(content)
    done = run(HUGEALIGN, "simulate", traced, SMALL, "--layout", f"order:{tmp_path / 'order'}")
    assert (done.returncode, message or "") == (
        3 if message else 0,
        message if message and message in done.stderr else "",
    )
    assert done.stdout.count("order:") == (0 if message else 1)


def test_no_order_there(traced: Path, tmp_path: Path) -> None:
    done = run(HUGEALIGN, "simulate", traced, "--layout", f"order:{tmp_path}/none")
    assert (done.returncode, "none: No such file" in done.stderr) == (3, True)


def test_binary_is_found_by_its_build(program: Path, traced: Path, tmp_path: Path) -> None:
    copy = tmp_path / "moved"
    copy.write_bytes(program.read_bytes())
    done = run(HUGEALIGN, "simulate", traced, "--binary", copy, "--json")
    assert json.loads(done.stdout)["binary"] == str(copy)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("program", "another build than the one that was traced; trace this one, or give that one with --binary\n"),
        ("other", "nothing of it runs"),
        ("text", worded("file.not-elf")),
    ],
)
def test_another_binary(name: str, message: str, program: Path, traced: Path, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"hello" if name == "text" else program.with_name("other").read_bytes())
    done = run(HUGEALIGN, "simulate", traced, "--binary", path)
    assert (done.returncode, message in done.stderr) == (3, True), done.stderr


def test_an_order_needs_the_program_as_it_was(traced: Path, tmp_path: Path) -> None:
    """The trace says where the program lies; by now another build lies there."""
    raw = traced.read_bytes()
    assert raw
    (tmp_path / "order").write_text("a\n")
    result = tracefile.open_trace(str(traced)).description.files[1]
    kept = Path(result.path).read_bytes()
    try:
        Path(result.path).write_bytes(Path(result.path).with_name("other").read_bytes())
        done = run(HUGEALIGN, "simulate", traced, "--layout", f"order:{tmp_path / 'order'}")
    finally:
        Path(result.path).write_bytes(kept)
    assert (done.returncode, "is another build" in done.stderr) == (3, True), done.stderr


# ---- a part of each thread


@pytest.fixture
def threads(program: Path, tmp_path: Path) -> Path:
    """A trace of that program, made by hand: one thread runs main a a b main, another main main."""
    lines = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout.splitlines()
    addresses = {words[-1]: int(words[0], 16) for line in lines if len(words := line.split()) == 3}
    blocks = b"".join(tracefile.BLOCK.pack(addresses[name], 1, 4, 1) for name in ("main", "a", "b"))
    path = tmp_path / "threads"
    with path.open("wb") as out:
        out.write(tracefile.MAGIC)
        for number, ids in enumerate(([1, 2, 2, 3, 1], [1, 1]), 1):
            payload = b"".join(block.to_bytes(4, "little") for block in ids)
            tracefile.write_chunk(out, number, tracefile.LAST | tracefile.RAW, len(ids), payload)
        files = (tracefile.File(""), describe(str(program)))
        tracefile.write_end(out, tracefile.Description(("program",), "x86_64", files, 1, 7), bytes(16) + blocks)
    return path


@pytest.mark.parametrize(
    ("words", "blocks", "counted"),
    [
        ([], 7, 2),
        (["--from", "main"], 7, 2),
        (["--from", "a"], 4, 1),
        (["--from", "a", "--until", "b"], 2, 1),
        (["--from", "a", "--until", "a"], 1, 1),
        (["--from", "b", "--until", "main"], 1, 1),
        (["--until", "a"], 3, 2),  # the second thread never enters it, and counts to its end
    ],
)
def test_a_part_of_each_thread(words: list[str], blocks: int, counted: int, threads: Path) -> None:
    done = run(HUGEALIGN, "simulate", threads, SMALL, *words, "--json")
    result = json.loads(done.stdout)
    jsonschema.validate(result, json.loads((ROOT / "lab/src/hugealign_lab/simulate-1.schema.json").read_text()))
    assert (result["blocks"], result["instructions"], result["threads"]) == (blocks, blocks, counted)
    asked = dict(zip(words[::2], words[1::2], strict=True))
    assert (result["from"], result["until"]) == (asked.get("--from"), asked.get("--until"))


def test_the_table_says_which_part(threads: Path) -> None:
    lines = run(HUGEALIGN, "simulate", threads, SMALL, "--from", "a", "--until", "b").stdout.splitlines()
    assert lines[0].endswith(": 2 blocks, 2 instructions, 1 thread")
    assert lines[1] == "from a until b: 1 of 2 threads"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--from", "no\x1bne"], r"no function no\x1bne; a name as `nm` prints it"),
        (["--until", ""], "no function ; a name"),
        (["--from", "_start"], "_start never ran in this trace"),
        (["--from", "b", "--until", "a"], "no thread enters a after b"),
    ],
)
def test_a_part_that_is_not_there(words: list[str], message: str, threads: Path) -> None:
    done = run(HUGEALIGN, "simulate", threads, SMALL, *words)
    assert (done.returncode, done.stdout) == (3, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_part_needs_the_program_as_it_was(threads: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    done = run(HUGEALIGN, "simulate", threads, "--binary", tmp_path / "text", "--from", "a")
    assert (done.returncode, worded("file.not-elf") in done.stderr) == (3, True), done.stderr
