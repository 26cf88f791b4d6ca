"""``order`` and ``map`` on profiles and programs that were made to take memory, disk or time, or to run something."""

import gzip
import struct
import subprocess
from pathlib import Path

import pytest

from tests.commands.bounded import Ended, run
from tests.support import HUGEALIGN, worded
from tests.support import run as run_any

PEAK = 256 << 20


def packed(path: Path, head: bytes, piece: bytes, times: int) -> None:
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(head)
        for _ in range(times):
            file.write(piece)


def cheap(cost: Ended, message: str) -> None:
    assert (cost.status, message in cost.line) == (3, True), cost.stderr
    assert cost.peak <= PEAK


YAML = b"header:\n  profile-version: 1\nfunctions:\n  - name: "


@pytest.mark.matrix
def test_a_bomb_in_gzip(prog: Path, tmp_path: Path) -> None:
    """One scalar of 1.5 GB took 3.7 GB of memory; here a fifth of it."""
    packed(tmp_path / "p.gz", YAML, b"a" * (1 << 20), 300)
    cheap(run("order", "p.gz", "-b", prog, cwd=tmp_path), "value or comment of more than")


@pytest.mark.parametrize("piece", [b"a" * 1023, b"a" * 70 + b"\n      ", b"\n" * 1023, b"#" * 70 + b"\n"])
def test_a_scalar_without_end(prog: Path, tmp_path: Path, piece: bytes) -> None:
    """Not packed, so that nothing but the reader of YAML can stop it."""
    (tmp_path / "p").write_bytes(YAML + piece * ((100 << 20) // len(piece)))
    cheap(run("order", "p", "-b", prog, cwd=tmp_path), "value or comment of more than")


@pytest.mark.matrix
def test_a_bomb_for_the_disk(prog: Path, tmp_path: Path) -> None:
    """182 KB of zstd, 5 GiB unpacked, filled the directory for temporary files; here a fifth of it."""
    with (tmp_path / "zeros").open("wb") as file:
        file.write(b"PERFILE2")
        file.truncate(1 << 30)
    subprocess.run(["zstd", "-q", "zeros", "-o", "p.zst"], cwd=tmp_path, check=True)
    (tmp_path / "zeros").unlink()
    most = 128 * (tmp_path / "p.zst").stat().st_size + (65 << 20)
    cheap(run("order", "p.zst", "-b", prog, cwd=tmp_path, file_size=most), "--max-unpacked")
    assert {path.name for path in tmp_path.iterdir()} == {"p.zst"}


@pytest.mark.matrix
def test_more_may_be_unpacked_where_that_is_asked_for(prog: Path, tmp_path: Path) -> None:
    packed(tmp_path / "p.gz", b"", (b"m" * 1000 + b";hot 1\n") * 1000, 110)
    refused = run("order", "p.gz", "-b", prog, cwd=tmp_path)
    cheap(refused, "unpacks to more than")
    done = run("order", "p.gz", "-b", prog, "--max-unpacked=200M", cwd=tmp_path)
    assert (done.status, done.stderr) == (0, "")
    assert "100.00 % of 110000 samples" in done.stdout


@pytest.mark.matrix  # unit/profile/test_read.py has every reader, with less
@pytest.mark.parametrize("line", ["n{0:x} 1\n", "1 main {0:x} 1 hot 0 0 5\n", "1 f{0:x} 0 1 g{0:x} 0 0 5\n"])
def test_names_and_calls_without_end(prog: Path, tmp_path: Path, line: str) -> None:
    """The documented bound of what is remembered of a profile."""
    with (tmp_path / "p").open("w") as file:
        file.writelines(line.format(number) for number in range(2_500_000))
    cost = run("order", "p", "-b", prog, cwd=tmp_path)
    assert (cost.status, "different names, calls and stacks" in cost.line) == (3, True), cost.stderr
    assert cost.peak <= 768 << 20


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"0 ", b"a"),  # ends in a backslash
        (b"", b"a "),
        (b"", b"\\a "),
    ],
)
def test_lines_of_fdata(prog: Path, tmp_path: Path, head: bytes, piece: bytes) -> None:
    line = head + piece * ((8 << 20) // len(piece) - 8) + b"\\"
    (tmp_path / "p").write_bytes(b"1 main 1 1 hot 0 0 5\n" + line + b"\n")
    cost = run("order", "p", "-b", prog, cwd=tmp_path)
    assert (cost.status, "1 line is not fdata" in cost.line) == (0, True)
    assert cost.peak <= PEAK


@pytest.mark.parametrize("piece", [b"header:" + b"\n" * 65_000, b"Counters:" + b"\n" * 65_000])
def test_what_begins_a_profile(prog: Path, tmp_path: Path, piece: bytes) -> None:
    """Detection took the square of the blank lines."""
    (tmp_path / "p").write_bytes(piece)
    cost = run("order", "p", "-b", prog, cwd=tmp_path)
    assert cost.status in (1, 3)
    assert cost.line


def elf(path: Path, *sections: tuple[str, int, int, int], data: bytes = b"") -> None:
    """Write an x86-64 program with *sections*: name, type, flags and size; sparse, but for *data*, which ends it."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in sections) + b".shstrtab\0"
    at = 0x2000
    headers = [bytes(64)]
    name_at = 1
    for name, kind, flags, size in sections:
        link = 2 if kind == 2 else 0
        entry = 24 if kind == 2 else 0
        headers.append(struct.pack("<IIQQQQIIQQ", name_at, kind, flags, 0x400000 + at, at, size, link, 0, 8, entry))
        at += size
        name_at += len(name) + 1
    headers.append(struct.pack("<IIQQQQIIQQ", name_at, 3, 0, 0, at + len(data), len(names), 0, 0, 1, 0))
    ident = b"\x7fELF\2\1\1" + bytes(9)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, 0x2000, 0x2000, 0x1000)
    with path.open("wb") as file:
        file.write(
            ident
            + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0, 64, 0x200, 0, 64, 56, 1, 64, len(headers), len(headers) - 1)
        )
        file.write(segment)
        file.seek(0x200)
        file.write(b"".join(headers))
        file.seek(at)
        file.write(data + names)


SYMTAB, STRTAB, PROGBITS = 2, 3, 1
TEXT = (".text", PROGBITS, 6, 4096)


@pytest.mark.parametrize("gibibytes", [1, 500])
def test_a_sparse_program(tmp_path: Path, gibibytes: int) -> None:
    """A symbol table and its names that are holes: 456 KiB on disk took 4.2 GB and 56 s."""
    size = 24 * ((gibibytes << 30) // 24)
    elf(tmp_path / "sparse", (".symtab", SYMTAB, 0, size), (".strtab", STRTAB, 0, 1 << 30), TEXT)
    (tmp_path / "p").write_text("main 1\n")
    cheap(run("order", "p", "-b", "sparse", cwd=tmp_path), worded("file.no-functions"))


def test_unwind_information_of_zeros(tmp_path: Path) -> None:
    elf(tmp_path / "zeros", (".eh_frame", PROGBITS, 2, 1 << 26), TEXT)
    (tmp_path / "p").write_text("main 1\n")
    cheap(run("order", "p", "-b", "zeros", cwd=tmp_path), worded("file.no-functions"))


def test_unwind_information_of_tiny_records(tmp_path: Path) -> None:
    """Each of an unknown kind, eight bytes long."""
    record = struct.pack("<II", 4, 1)
    elf(tmp_path / "tiny", (".eh_frame", PROGBITS, 2, 1 << 26), TEXT)
    with (tmp_path / "tiny").open("r+b") as file:
        file.seek(0x2000)
        file.write(record * ((1 << 26) // 8))
    (tmp_path / "p").write_text("main 1\n")
    cheap(run("order", "p", "-b", "tiny", cwd=tmp_path), worded("file.no-functions"))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("-o=stolen", b"\xfflprofi\x81"),
        ("-o", b"adcg*22B"),
        ("--output=stolen", b"adcg"),
        ("-o=stolen", b"\x84\xe4\xd0\xb1\xf4\xc9\x94\xa8"),
        ("--help", b"PERFILE2"),
    ],
)
def test_names_of_files_are_no_options(prog: Path, tmp_path: Path, name: str, data: bytes) -> None:
    """A tool that starts receives ./NAME: neither its help nor a file that it writes comes of a profile's name."""
    (tmp_path / name).write_bytes(data + bytes(100))
    (tmp_path / "tools").mkdir()
    for tool in ("llvm-profdata-25", "perf", "gcov"):
        (tmp_path / "tools" / tool).write_text('#!/bin/sh\nprintf "%s\\n" "$@" >>"$TMPDIR/words"\nexit 1\n')
        (tmp_path / "tools" / tool).chmod(0o755)
    words = ["env", f"PATH={tmp_path / 'tools'}:/usr/bin:/bin", f"TMPDIR={tmp_path}", HUGEALIGN, "order", "-b", prog]
    done = run_any(*words, "--", name, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    given = (tmp_path / "words").read_text().splitlines()
    assert name not in given
    assert any(word.endswith(f"/{name}") for word in given), given


@pytest.mark.matrix
def test_a_call_graph_of_a_million_edges(tmp_path: Path) -> None:
    """Between 5,000 functions in ten windows, each edge different: 24 MB, in the documented memory."""
    count, edges = 5000, 1_000_000
    lines = [f".globl f{n}\n.type f{n},@function\nf{n}: .skip 4096, 0xc3\n.size f{n}, 4096\n" for n in range(count)]
    (tmp_path / "prog.s").write_text(".text\n.globl _start\n_start:\n" + "".join(lines))
    subprocess.run(["as", "prog.s", "-o", "prog.o"], cwd=tmp_path, check=True)
    subprocess.run(["ld", "prog.o", "-o", "prog"], cwd=tmp_path, check=True)
    with (tmp_path / "p").open("w") as file:
        for edge in range(edges):
            caller, callee = edge % count, (edge * 7 + edge // count) % count
            file.write(f"1 f{caller} {edge // count:x} 1 f{callee} 0 0 {edge % 9 + 1}\n")
    ended = run("order", "p", "-b", "prog", "--windows=3", "-o", "out", cwd=tmp_path)
    assert (ended.status, ended.stderr) == (0, "")
    assert (tmp_path / "out").read_text().count("\nf") == count
    assert ended.peak <= 768 << 20
