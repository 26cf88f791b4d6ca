"""`hugealign verify` on archives that were made to cost more than they weigh: one line, status 3, bounded work."""

import bz2
import gzip
import json
import lzma
import os
import shutil
import struct
import subprocess
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.bounded import MEMORY, refused, run
from tests.support import worded
from tests.trees import tar

ELF = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x03\0\x3e\0" + b"\0" * 44


def cpio(name: bytes, data: bytes, size: bytes | None = None) -> bytes:
    head = b"070701" + b"00000001" + b"000081a4" + b"00000000" * 2 + b"00000001" + b"00000000"
    head += (size or b"%08x" % len(data)) + b"00000000" * 4 + b"%08x" % (len(name) + 1) + b"00000000"
    front = head + name + b"\0"
    return front + bytes(-len(front) % 4) + data + bytes(-len(data) % 4)


def image(count: int) -> bytes:
    """A container image whose index names one blob *count* times, which names another, which names *count* layers."""

    def digest(letter: str) -> str:
        return "sha256:" + letter * 64

    index = {"manifests": [{"digest": digest("a")}] * count}
    middle = {"manifests": [{"digest": digest("b")}] * count}
    manifest = {"layers": [{"digest": digest("c")}] * count}
    documents = {"index.json": index, "blobs/sha256/" + "a" * 64: middle, "blobs/sha256/" + "b" * 64: manifest}
    files = [(name, json.dumps(document).encode()) for name, document in documents.items()]
    return tar(*files, ("blobs/sha256/" + "c" * 64, tar(("prog", ELF))))


def test_image_that_names_a_blob_many_times(tmp_path: Path) -> None:
    """Each blob is followed once: N names of N names of N names cost 3 N."""
    data = image(4000)
    (tmp_path / "x.tar").write_bytes(data)
    ended = run("verify", tmp_path / "x.tar")
    assert "x.tar!layer1!prog" in ended.stdout
    assert (ended.status, ended.stderr) == (3, "")  # the program of the layer has no segments
    assert ended.peak < 128 << 20


def test_baseline_of_nothing_but_empty_lists(tmp_path: Path) -> None:
    """Each takes 3 bytes in the file, and would take 64 in memory."""
    size = 24 << 20
    with (tmp_path / "report").open("w") as file:
        file.write('{"schema": "hugealign.verify/1", "files": [' + "[]," * (size // 3) + "1]}")
    ended = run("verify", "--config=/dev/null", "--baseline", tmp_path / "report", "/bin/true")
    assert (ended.status, ended.stdout, ended.line != "") == (2, "", True)
    assert ended.peak < 4 * size + (32 << 20)


@pytest.mark.parametrize("size", [b"-0000001", b"+0000001", b"0000_001", b" 0000001", b"0x000001"])
def test_sizes_that_int_would_take(size: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(cpio(b"x", ELF + bytes(100), size))
    refused(run("verify", tmp_path / "x"), "could not check: damaged")


def zip_of(entries: list[tuple[bytes, int, int, bytes, int]], bodies: bytes) -> bytes:
    """A zip whose directory has *entries* (name, offset, method, packed, checksum) above *bodies*."""
    directory = b""
    for name, offset, method, packed, crc in entries:
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, method, 0, 0, crc, len(packed), 1 << 28,
                                 len(name), 0, 0, 0, 0, 0o100644 << 16, offset) + name  # fmt: skip
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, len(directory), len(bodies), 0)
    return bodies + directory + end


def local(method: int, packed: bytes) -> bytes:
    return struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, method, 0, 0, 0, len(packed), 0, 0, 0) + packed


def test_zip_members_on_one_stream(tmp_path: Path) -> None:
    """The ratio is one for the whole file: 500 members of 64 MiB each, all of them the same 64 KiB."""
    data = ELF + bytes(64 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(data) + packer.flush()
    checksum = zlib.crc32(data)
    entries = [(b"%d" % n, 0, 8, packed, checksum) for n in range(500)]
    out = zip_of(entries, local(8, packed))
    (tmp_path / "x.zip").write_bytes(out)
    refused(run("verify", tmp_path / "x.zip"), _LARGE)


@pytest.mark.skipif(not shutil.which("zstd"), reason="zstd is not installed")
def test_zip_members_that_each_start_a_program(tmp_path: Path) -> None:
    packed = subprocess.run(["zstd", "-qc"], input=ELF, capture_output=True, check=True).stdout
    out = zip_of([(b"%d" % n, 0, 93, packed, zlib.crc32(ELF)) for n in range(4000)], local(93, packed))
    (tmp_path / "x.zip").write_bytes(out)
    ended = run("verify", tmp_path / "x.zip")
    assert _LARGE in ended.stdout
    assert ended.stdout.count("\n") < 600


def pax(size: int) -> bytes:
    info = tarfile.TarInfo("x")
    info.size, info.type = size, tarfile.XHDTYPE
    return info.tobuf(tarfile.USTAR_FORMAT)


def sparse(realsize: int, pieces: list[tuple[int, bytes]]) -> bytes:
    """A sparse tar member of pax form 1.0."""
    numbers = [len(pieces), *(n for offset, data in pieces for n in (offset, len(data)))]
    table = b"".join(b"%d\n" % n for n in numbers)
    stored = table + bytes(-len(table) % 512) + b"".join(data for _, data in pieces)
    info = tarfile.TarInfo("x")
    info.size = len(stored)
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(realsize)}
    return info.tobuf(tarfile.PAX_FORMAT) + stored + bytes(-len(stored) % 512)


TINY_TAR = tar(("x", b"data"))[:1024]
BOMBS: dict[str, Callable[[], bytes]] = {
    "headers of tar": lambda: gzip.compress(TINY_TAR * 100_000),
    "headers of ar": lambda: gzip.compress(
        b"!<arch>\n" + (b"x/".ljust(16) + b"0".ljust(32) + b"0         `\n") * 500_000
    ),
    "headers of cpio": lambda: gzip.compress(cpio(b"x", b"") * 250_000),
    "directories of tar": lambda: gzip.compress(tar_directory() * 120_000),
    "records of pax": lambda: gzip.compress((pax(1 << 20) + (b"5 a=\n" * (1 << 18))[: 1 << 20]) * 200),
    "empty streams of bzip2": lambda: gzip.compress(bz2.compress(b"a") + bz2.compress(b"") * 3_000_000),
    "empty streams of xz": lambda: gzip.compress(lzma.compress(b"") * 1_000_000),
    "streams of one byte, in one header": lambda: gzip.compress(
        gzip.compress(pax(1 << 20), 1) + gzip.compress(b"a", 1) * (1 << 20)
    ),
    "holes behind the end of a tar within": lambda: sparse(1 << 62, [(0, TINY_TAR)]),
    "holes that a tar within passes over": lambda: sparse(1 << 62, [(0, tar_of_size(1 << 60))]),
    "holes within a program": lambda: sparse(1 << 62, [(0, ELF)]),
    "sections of programs": lambda: gzip.compress(tar(*[("x", many_sections())] * 25)),
    "documents of images": lambda: gzip.compress(tar(*[(str(n), inner_image()) for n in range(30)]), 6),
    "files of an rpm package": lambda: gzip.compress(rpm_of_files(1 << 20)),
}


def tar_directory() -> bytes:
    info = tarfile.TarInfo("x")
    info.type = tarfile.DIRTYPE
    return info.tobuf(tarfile.USTAR_FORMAT)


def tar_of_size(size: int) -> bytes:
    info = tarfile.TarInfo("x")
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


def many_sections() -> bytes:
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, 64 + 56, 0, 64, 56, 1, 64, 65000, 0
    )
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 4096, 4096, 4096)
    return head + load + struct.pack("<IIQQQQIIQQ", 0, 1, 6, 64, 64, 64, 0, 0, 1, 0) * 65000


def inner_image() -> bytes:
    return tar(*[("blobs/sha256/" + "a" * 64, b"[" + b"{}," * 340_000 + b"{}]") for _ in range(8)])


def rpm_of_files(count: int) -> bytes:
    """A package whose header lists *count* files, all tables in the same place, and the files' indexes as payload."""
    tags = [(1116, count), (1118, 1), (1117, count), (1030, count), (5008, count), (1095, count), (1096, count)]
    store = bytes(8 * count)
    entries = b"".join(struct.pack(">IIII", tag, 4, 0, n) for tag, n in tags)
    header = b"\x8e\xad\xe8\x01\0\0\0\0" + struct.pack(">II", len(tags), len(store)) + entries + store
    return (
        b"\xed\xab\xee\xdb".ljust(96, b"\0") + b"\x8e\xad\xe8\x01\0\0\0\0" + bytes(8) + header + b"07070X00000000\0\0"
    )


@pytest.mark.parametrize("kind", BOMBS)
def test_bombs_of_every_kind(kind: str, tmp_path: Path) -> None:
    data = BOMBS[kind]()
    (tmp_path / "x").write_bytes(data)
    ended = run("verify", "-q", tmp_path / "x")
    print(f"{kind}: {len(data) >> 10} KiB, {ended.peak >> 20} MiB: {ended.stdout[-200:]}")
    refused(ended, "could not check")


@pytest.mark.matrix
def test_many_small_bombs(tmp_path: Path) -> None:
    """Each is given up after what a file of its size may unpack to."""
    bomb = bz2.compress(tar(("x", b"\1" + bytes(200 << 20))))
    for n in range(4):
        (tmp_path / f"{n}.tar.bz2").write_bytes(bomb)
    ended = run("verify", "-r", tmp_path)
    assert ended.status == 3
    assert ended.stdout.count(f"{_LARGE}64.") == 4


@pytest.mark.matrix
@pytest.mark.skipif(not shutil.which("zstd"), reason="zstd is not installed")
def test_a_tree_of_small_honest_archives(tmp_path: Path) -> None:
    """A tree of small archives, such as kernel modules: each needs the zstd program, most are under 2 KiB."""
    packed = subprocess.run(["zstd", "-qc"], input=tar(*[("x", b"")] * 20, ("y", ELF)), capture_output=True, check=True)
    for n in range(300):
        (tmp_path / f"{n}.tar.zst").write_bytes(packed.stdout)
    assert len(packed.stdout) < 2048
    ended = run("verify", "-r", tmp_path)
    assert _LARGE not in ended.stdout
    assert ended.stdout.count(worded("file.no-segments")) == 300


def test_max_unpacked_counts_for_documents_and_copies(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(tar(("x", ELF + os.urandom(3 << 20))))
    assert worded("file.too-large", limit=2 << 20) in run("verify", "--max-unpacked=2M", tmp_path / "x.tar").stdout
    (tmp_path / "y.tar").write_bytes(inner_image())
    assert worded("file.too-large", limit=2 << 20) in run("verify", "--max-unpacked=2M", tmp_path / "y.tar").stdout


#: What is printed of an archive that unpacks to more than a limit, up to the limit.
_LARGE = worded("file.too-large", limit=0).removesuffix("0 B")
_HEAD = "[[verify.exceptions]]\nignore = ['HA001']\nreason = 'x'\n"
_INLINE = "{ignore = ['HA001'], reason = 'x', files = ['*']}, "
#: Configurations of up to 256 KiB, and what is said of each.
CONFIGURATIONS = {
    "a dotted key": ("verify." + ".".join("a" * 120_000) + " = 1", "nested too deeply"),
    "many dotted keys": ("".join(f"a{number}.{'.'.join('a' * 190)} = 1\n" for number in range(650)), "no such key"),
    "exceptions": ((_HEAD + "files = ['*', 'b']\n") * 3_500, "more than 4096 patterns"),
    "exceptions in one line": (f"[verify]\nexceptions = [{_INLINE * 4_900}]", "more than 4096 patterns"),
    "patterns": (_HEAD + "files = [" + "'*a*b*c*d*e*f*g', " * 13_000 + "]\n", "more than 4096 patterns"),
}


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_configurations(kind: str, tmp_path: Path) -> None:
    text, output = CONFIGURATIONS[kind]
    assert len(text) < 1 << 18
    (tmp_path / "hugealign.toml").write_text(text)
    ended = run("verify", "/bin/sh", cwd=tmp_path)
    assert ended.status == 2, ended
    assert output in ended.line
    assert ended.peak < MEMORY
