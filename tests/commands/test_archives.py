"""Archives made by their own tools, and hostile ones: what is found in them, what is said of them, what it costs."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from hugealign.diagnosis.values import Diagnosis
from hugealign.io.unpacking import Budget, FileSource
from hugealign.verification.archives import OBJECT, OTHER
from hugealign.verification.archives import tar as tar_reader
from hugealign.verification.result import UNKNOWN, FileReport
from hugealign.verification.verify import VerifyOptions, check_all
from tests.commands import archives
from tests.support import ROOT
from tests.trees import tar

ELF = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x03\0\x3e\0" + b"\0" * 44  # the header of a library, and no more


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("archives")
    archives.tree(directory)
    return directory


def check(path: Path, passed: "Counter[str] | None" = None, limit: int | None = None) -> list[FileReport]:
    return list(check_all([str(path)], VerifyOptions(max_unpacked=limit), Counter() if passed is None else passed))


def names(reports: list[FileReport]) -> list[str]:
    return sorted(report.path.split("!", 1)[-1] for report in reports if not report.problem)


def reasons(reports: list[FileReport]) -> str:
    """Return code and facts of each problem, in a line each."""
    problems = [report.problem for report in reports if report.problem]
    return "\n".join(" ".join((result.code, *map(str, result.facts.values()))) for result in problems)


@pytest.mark.parametrize("kind", archives.COMMANDS)
def test_every_kind(kind: str, made: Path) -> None:
    """Every kind of archive yields the same two programs; an object and other files are counted."""
    missing = [tool for tool in archives.tools(kind) if not shutil.which(tool)]
    if missing:
        pytest.skip(f"{missing[0]} is not installed")
    path = archives.make(kind, made).rename(made / f"no-name-says-{kind.replace('.', '-')}")
    counts: Counter[str] = Counter()
    reports = check(path, counts)
    assert not reasons(reports)
    expected: tuple[str, ...] = archives.PROGRAMS
    if kind in archives.IMAGES:
        expected = ("layer1!usr/bin/prog", "layer1!usr/lib/libprog.so", "layer2!again")
    elif kind == "streamed.zip":
        expected = (*expected, "usr/bin/other")  # made without -y: a copy, not a link
    assert names(reports) == sorted(expected)
    assert counts[OBJECT] == 1
    assert counts[OTHER] >= 1


@pytest.mark.parametrize(
    "kind", ["tar.gz", "tar.xz", "zip", "zstd.deb", "xz.deb", "none.rpm", "gz.rpm", "cpio", "tar.pax"]
)
def test_truncated_anywhere(kind: str, made: Path, tmp_path: Path) -> None:
    whole = archives.make(kind, tmp_path, made).read_bytes()
    cut = tmp_path / "cut"
    for part in range(1, 20):
        cut.write_bytes(whole[: len(whole) * part // 20])
        reports = check(cut)
        if names(reports) != sorted(archives.PROGRAMS) or kind not in ("tar.pax", "cpio"):
            assert [r for r in reports if r.verdict == UNKNOWN], part


def test_what_follows_a_cpio_archive(made: Path, tmp_path: Path) -> None:
    """Zeros fill the last block; what is not an archive is not skipped in silence."""
    whole = archives.make("cpio", tmp_path, made).read_bytes()
    cut = tmp_path / "cut"
    for rest, reason in ((b"", []), (bytes(9000), []), (b"\x02\x21\x4c\x18lz4", ["file.unknown-form"])):
        cut.write_bytes(whole + rest)
        reports = check(cut)
        assert names(reports)[-2:] == sorted(archives.PROGRAMS)
        assert [report.problem.code for report in reports if report.problem] == reason


def test_static_archives(made: Path) -> None:
    archives.sh("cp tree/usr/lib/prog.o a.o; cp a.o a-name-of-more-than-sixteen-characters.o", made)
    archives.sh(
        "rm -f s.a; ar rcs s.a *.o; rm -f t.a; ar rcsT t.a *.o; rm -f mixed.a; ar rc mixed.a a.o tree/usr/bin/prog",
        made,
    )
    (static,) = check(made / "s.a")
    assert static.verdict == UNKNOWN
    assert static.problem == Diagnosis("file.archive", str(made / "s.a"), {"objects": 2, "text": 22})
    (thin,) = check(made / "t.a")
    assert thin.problem == Diagnosis("file.thin-archive", str(made / "t.a"), {"objects": 2, "text": 0})
    program, mixed = check(made / "mixed.a")
    assert program.path.endswith("mixed.a!prog")
    assert program.verdict == "ok"
    assert mixed.problem == Diagnosis("file.archive", str(made / "mixed.a"), {"objects": 1, "text": 11})
    walked = made / "walked"
    walked.mkdir()
    for name in ("s.a", "mixed.a"):
        shutil.copy(made / name, walked)
    counts: Counter[str] = Counter()
    assert [r.path for r in check_all([str(walked)], VerifyOptions(recursive=True), counts)] == [
        f"{walked}/mixed.a!prog"
    ]
    assert counts[OBJECT] == 3


def zipped(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


def test_nesting_ends(tmp_path: Path) -> None:
    """Three archives within one another are looked into; the fourth is a reason, as is too much compression."""
    program = Path("/bin/true").read_bytes()
    inner = tar(("prog", program))
    for level, wrap in ((2, tar), (3, zipped)):
        inner = wrap((f"level{level}", inner))
    (tmp_path / "three").write_bytes(inner)
    assert names(check(tmp_path / "three")) == ["level3!level2!prog"]
    (tmp_path / "four").write_bytes(tar(("level4", inner)))
    assert reasons(check(tmp_path / "four")) == "file.too-deep 3"
    data = program
    for _ in range(5):
        data = gzip.compress(data)
    (tmp_path / "gz").write_bytes(data)
    assert reasons(check(tmp_path / "gz")) == "file.too-deep 3"


@pytest.mark.parametrize("wrap", [gzip.compress, bz2.compress, lzma.compress])
def test_one_compressed_program(wrap: Callable[[bytes], bytes], tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(wrap(Path("/bin/true").read_bytes()))
    assert [r.verdict for r in check(tmp_path / "x")] == ["ok"]


def test_concatenated_streams(tmp_path: Path) -> None:
    data = tar(("prog", Path("/bin/true").read_bytes()))
    half = len(data) // 2
    for wrap in (gzip.compress, bz2.compress, lzma.compress):
        (tmp_path / "x").write_bytes(wrap(data[:half]) + wrap(data[half:]) + b"\0" * 100)
        assert names(check(tmp_path / "x")) == ["prog"]


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "/dev/null", "a/../../b", "\x1b[31mred\n", "x" * 5000, ""]
)
def test_names_are_only_names(name: str, tmp_path: Path) -> None:
    """Nothing is written anywhere, whatever a member is called."""
    program = Path("/bin/true").read_bytes()
    (tmp_path / "t").mkdir()
    for number, data in enumerate((tar((name, program)), zipped((name or "x", program)))):
        (tmp_path / "t" / str(number)).write_bytes(data)
        before = Path("/etc/passwd").stat()
        (report,) = check(tmp_path / "t" / str(number))
        assert report.verdict == "ok"
        assert Path("/etc/passwd").stat().st_mtime_ns == before.st_mtime_ns
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["0", "1", "t"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_not_followed(kind: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(tar(("link", b""), kind=kind, link="/bin/true"))
    assert "file.empty" in reasons(check(tmp_path / "x"))


def test_duplicates_are_all_checked(tmp_path: Path) -> None:
    program = Path("/bin/true").read_bytes()
    (tmp_path / "x").write_bytes(tar(("a", program), ("a", program)))
    assert names(check(tmp_path / "x")) == ["a", "a"]


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_long_names(form: int, tmp_path: Path) -> None:
    """In a member of their own, in a record in front, or in two fields."""
    name = "/".join(["directory"] * 14 + ["program"])
    with tarfile.open(tmp_path / "x", "w", format=form) as archive:
        archive.add(os.path.realpath("/bin/true"), name)
    assert names(check(tmp_path / "x")) == [name]


def test_size_in_a_record(tmp_path: Path) -> None:
    """As of members of more than 8 GiB: the record in front says it, the field something else."""
    program = Path("/bin/true").read_bytes()
    info = tarfile.TarInfo("a")
    info.size = len(program)
    info.pax_headers = {"size": str(len(program))}
    records = info.tobuf(tarfile.PAX_FORMAT)[:-512]
    info.size, info.pax_headers = 512, {}
    stored = records + info.tobuf(tarfile.USTAR_FORMAT) + program + bytes(-len(program) % 512)
    (tmp_path / "x").write_bytes(stored + tar(("b", program)))
    assert names(check(tmp_path / "x")) == ["a", "b"]


def test_zip64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes and offsets that do not fit 32 bits stand elsewhere; Python writes them so above its limit."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)
    program = Path("/bin/true").read_bytes()
    data = zipped(("a", program), ("b", program))
    monkeypatch.undo()
    last = data[data.rindex(b"PK\1\2") :]
    assert last[20:28] == b"\xff" * 8
    assert last[42:46] == b"\xff" * 4
    (tmp_path / "x").write_bytes(data)
    assert names(check(tmp_path / "x")) == ["a", "b"]


def zeros_bomb(wrap: Callable[[bytes], bytes]) -> bytes:
    """A tar archive that says that a member of 64 GiB of zeros follows the ELF magic, compressed."""
    info = tarfile.TarInfo("bomb")
    info.size = 64 << 30
    header = info.tobuf(tarfile.GNU_FORMAT)
    chunk = wrap(b"\0" * (64 << 20))
    return wrap(header + ELF.ljust(512, b"\1")) + chunk * 8


@pytest.mark.parametrize("wrap", [gzip.compress, lzma.compress, bz2.compress])
def test_bombs(wrap: Callable[[bytes], bytes], tmp_path: Path) -> None:
    bomb = zeros_bomb(wrap)
    (tmp_path / "x").write_bytes(bomb)
    assert f"file.too-large {32 << 20}" in reasons(check(tmp_path / "x", limit=32 << 20))
    assert "file.too-large" in reasons(check(tmp_path / "x"))


def test_bombs_within_bombs(tmp_path: Path) -> None:
    """The limit is one for all levels, and ends the look at the whole file."""
    inner = zipped(("zeros", ELF + b"\0" * (8 << 20)))
    (tmp_path / "x").write_bytes(zipped(*[(f"{n}", zipped(*[(f"{n}", inner) for n in range(10)])) for n in range(10)]))
    reports = check(tmp_path / "x", limit=64 << 20)
    assert "file.too-large" in reasons(reports[-1:])
    assert len(reports) < 10


def test_sparse_member_that_claims_the_earth(tmp_path: Path) -> None:
    info = tarfile.TarInfo("x")
    info.size = 512
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str((1 << 63) - 1)}
    (tmp_path / "x").write_bytes(info.tobuf(tarfile.PAX_FORMAT) + b"1\n0\n0\n".ljust(512, b"\0") + bytes(1024))
    assert "file.empty" in reasons(check(tmp_path / "x"))
    (tmp_path / "x").write_bytes(
        info.tobuf(tarfile.PAX_FORMAT) + b"1\n0\n512\n".ljust(512, b"\0") + ELF.ljust(512, b"\1")
    )
    assert reasons(check(tmp_path / "x"))


@pytest.mark.parametrize("form", ["gnu", "pax"])
def test_holes_are_where_they_were(form: str, tmp_path: Path) -> None:
    """A file of forty pieces with holes between them, stored without the holes, is read as it was."""
    with (tmp_path / "file").open("wb") as out:
        for piece in range(40):
            out.seek(piece << 17)
            out.write(os.urandom(4096))
        out.truncate(6 << 20)
    archives.sh(f"tar -S --format={form} -cf x file", tmp_path)
    assert (tmp_path / "x").stat().st_size < 1 << 20
    with (tmp_path / "x").open("rb") as stream:
        source = FileSource(stream.fileno(), 0, os.fstat(stream.fileno()).st_size)
        member = next(tar_reader.members(source, Budget(source.end)))
        content = b"".join(iter(lambda: member.source.read(10000), b""))
    assert content == (tmp_path / "file").read_bytes()


def edited(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def tar_size(field: bytes) -> bytes:
    header = bytearray(tar(("x", ELF))[:512])
    header[124:136] = field.ljust(12, b"\0")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + ELF


AR = b"!<arch>\n" + b"x/".ljust(16) + b"0".ljust(32) + b"%-10s`\n"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (tar_size(b"77777777777"), "file.truncated"),
        (tar_size(b"\x80" + b"\xff" * 11), "file.damaged"),
        (tar_size(b"\xff" * 12), "file.damaged"),
        (tar_size(b"\x80\0\0\0\x7f" + b"\xff" * 7), "file.truncated"),
        (edited(tar(("x", ELF), ("y", ELF)), 1024 + 10, b"!"), "file.damaged tar header"),
        (tar(("x", b"9 a=1234\n9`b=1234\n"), kind=tarfile.XHDTYPE), "file.damaged pax header"),
        (AR % b"9999999999", "file.truncated"),
        (AR % b"-1", "file.damaged"),
        (
            b"!<arch>\n" + b"#1/99".ljust(16) + b"0".ljust(32) + b"10        `\n" + b"x" * 10,
            "file.damaged",
        ),
        (b"!<arch>\n" + b"/999".ljust(16) + b"0".ljust(32) + b"10        `\n" + b"x" * 10, "file.empty"),
        (b"070701" + b"7fffffff" * 13, "file.truncated|file.damaged"),
        (b"070701" + b"not-hex!" * 13, "file.damaged"),
        (
            b"\xed\xab\xee\xdb" + b"\0" * 92 + b"\x8e\xad\xe8\x01" + b"\0" * 4 + b"\xff" * 8,
            "file.damaged rpm header",
        ),
        (b"\xed\xab\xee\xdb" + b"\0" * 92, "file.truncated"),
        (b"PK\3\4" + b"\0" * 100, "file.truncated"),
        (b"PK\5\6" + b"\xff" * 18, "file.damaged zip directory"),
        (gzip.compress(ELF, mtime=0)[:-6] + b"\0\0\0\0\0\0", "file.damaged"),
        (b"\x28\xb5\x2f\xfd" + b"\xff" * 100, "file.damaged zstd data"),
    ],
)
def test_lies(data: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(data)
    assert any(word in reasons(check(tmp_path / "x")) for word in reason.split("|")), reasons(check(tmp_path / "x"))


def test_a_member_that_is_no_program_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A jar has thousands.  Programs among them are found wherever their beginning lies."""
    program = Path("/bin/true").read_bytes()
    classes = [(f"{number}.class", b"\xca\xfe\xba\xbe" + os.urandom(300) + bytes(2000)) for number in range(2000)]
    members = [*classes, ("true", program), ("n" * 2000, program), ("short", b"\x7fELF"), ("random", os.urandom(4000))]
    path = tmp_path / "x"
    path.write_bytes(zipped(*members))
    reads: list[int] = []
    pread = os.pread

    def counted(fd: int, size: int, at: int) -> bytes:
        reads.append(at)
        return pread(fd, size, at)

    monkeypatch.setattr(os, "pread", counted)
    passed: Counter[str] = Counter()
    reports = check(path, passed)
    assert names(reports) == ["n" * 2000, "true"]
    assert passed[OTHER] == len(classes) + 2
    assert len(reads) < len(classes) + 200


def test_zip_lies(tmp_path: Path) -> None:
    good = zipped(("x", Path("/bin/true").read_bytes()))
    central = good.rfind(b"PK\1\2")
    path = tmp_path / "x"
    for at, new, reason in (
        (central + 16, b"\0\0\0\0", "file.damaged CRC-32"),
        (central + 20, b"\xff\xff\xff\x7f", "file.damaged zip directory"),
        (central + 8, b"\1\0", "file.members-encrypted 1"),
        (central + 10, b"\x09\0", "file.unknown-form 1 zip method 9"),
        (central + 42, b"\xff\xff\xff\x00", "file.damaged zip directory"),
        (central, b"XX", "file.damaged zip directory"),
    ):
        path.write_bytes(edited(good, at, new))
        assert reason in reasons(check(path)), reason


def test_encrypted_zip(made: Path) -> None:
    archives.sh("rm -f secret.zip; zip -qe -P word secret.zip -j tree/usr/bin/prog tree/usr/lib/libprog.so", made)
    assert reasons(check(made / "secret.zip")) == "file.members-encrypted 2"


def test_no_zstd_program(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archives.make("tar.zst", tmp_path, made)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert reasons(check(path)) == "file.no-zstd"


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from collections import Counter
from hugealign.verification import verify
reports = sum(1 for _ in verify.check_all(sys.argv[2:], verify.VerifyOptions(), Counter()))
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(reports, int(peak.split()[1]) >> 10)
"""


def apart(path: Path) -> tuple[int, int]:
    """Check *path* in a process of its own: how many reports, and its peak memory in MiB."""
    words = [sys.executable, "-c", SCRIPT, str(ROOT), str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    reports, peak = done.stdout.split()
    return int(reports), int(peak)


@pytest.mark.parametrize("kind", ["tar", "zip", "ar"])
def test_many_members(kind: str, tmp_path: Path) -> None:
    """Tiny members take no memory of their own: 400 bytes of each would be seen."""
    path, count = tmp_path / "x", 20_000
    with path.open("wb") as out:
        if kind == "tar":
            out.write(tar(("x", b"data"))[:1024] * count)
        elif kind == "ar":
            out.write(b"!<arch>\n" + (AR[8:] % b"4" + b"data") * count)
        else:
            with zipfile.ZipFile(out, "w") as archive:
                for number in range(count):
                    archive.writestr(str(number), b"data" * 5)
    reports, peak = apart(path)
    assert reports == 1
    assert peak < 20


def test_windows_of_xz_are_bounded(tmp_path: Path) -> None:
    """xz in xz in xz, each with the largest window of `xz -9`, and one beyond that."""
    data = tar(("x", os.urandom(1 << 20)))
    window = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 64 << 20}]
    for _ in range(3):
        data = lzma.compress(data, filters=window)
    (tmp_path / "x").write_bytes(data)
    assert apart(tmp_path / "x")[1] < 200
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 512 << 20}]
    (tmp_path / "y").write_bytes(lzma.compress(ELF * 1000, filters=filters))
    assert "file.damaged xz data" in reasons(check(tmp_path / "y"))


def test_nothing_is_left_when_killed(tmp_path: Path) -> None:
    """The copy of a member has no name: after SIGKILL in the middle nothing is there."""
    size = 3 << 30
    info = tarfile.TarInfo("x")
    info.size = size
    with (tmp_path / "x").open("wb") as out:
        out.write(info.tobuf() + ELF)
        out.truncate(size + 1024)
        out.seek(size)
        out.write(b"\1")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    words = [sys.executable, "-c", SCRIPT, str(ROOT), str(tmp_path / "x")]
    process = subprocess.Popen(words, env=os.environ | {"TMPDIR": str(temporary)}, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 100
    while not open_below(process.pid, temporary) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert open_below(process.pid, temporary), "no temporary file was seen"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not list(temporary.iterdir())


def open_below(pid: int, directory: Path) -> list[str]:
    result = []
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                result.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return [target for target in result if target.startswith(str(directory))]


def test_temporary_place_that_is_full(tmp_path: Path) -> None:
    """A file-size limit of 64 KiB stands for the full disk: the reason is the system's, and no signal ends us."""
    (tmp_path / "x").write_bytes(zipped(("x", ELF + os.urandom(1 << 20))))
    words = [
        sys.executable,
        "-c",
        SCRIPT.replace("sum(1 for _ in", "list(r.problem.facts for r in"),
        str(ROOT),
        str(tmp_path / "x"),
    ]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16)),
    )
    assert "{'error': 'EFBIG'}" in done.stdout


def test_temporary_place_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(zipped(("x", ELF)))
    monkeypatch.setenv("TMPDIR", "/no/such")
    assert reasons(check(tmp_path / "x")) == "file.no-room /no/such ENOENT"


def test_header_of_a_package_with_large_files(tmp_path: Path) -> None:
    """The payload of rpm's large files, by hand: its names and sizes are those of the package's header.

    A directory has no contents, and of two hard links the last one has them.
    """
    program, link = Path("/bin/true").read_bytes(), b"same"
    files = [(0o40755, 4096, 7), (0o100755, len(program), 8), (0o100755, len(program), 9), (0o100755, len(program), 9)]
    files.append((0o120777, len(link), 10))
    modes, sizes, inodes = zip(*files, strict=True)
    kinds = (
        (1116, struct.pack(">5I", *[0] * 5)), (1118, b"/usr/\0"), (1117, b"share\0prog\0hard\0same\0link\0"),
        (1030, struct.pack(">5H", *modes)), (5008, struct.pack(">5Q", *sizes)), (1095, struct.pack(">5I", *[1] * 5)),
        (1096, struct.pack(">5I", *inodes)),
    )  # fmt: skip
    store, tags = b"", []
    for tag, data in kinds:
        tags.append((tag, len(store), 1 if tag == 1118 else 5))
        store += data
    entries = b"".join(struct.pack(">IIII", tag, 0, offset, count) for tag, offset, count in tags)
    header = b"\x8e\xad\xe8\x01\0\0\0\0" + struct.pack(">II", len(tags), len(store)) + entries + store
    signature = b"\x8e\xad\xe8\x01\0\0\0\0" + bytes(8)
    name = b"TRAILER!!!\0"
    trailer = b"070701" + b"00000000" * 11 + b"%08x" % len(name) + b"00000000" + name
    contents = (b"", program, b"", program, link)
    payload = b"".join(b"07070X%08x\0\0" % at + part + bytes(-len(part) % 4) for at, part in enumerate(contents))
    payload += trailer.ljust(124, b"\0")
    package = b"\xed\xab\xee\xdb".ljust(96, b"\0") + signature + header + gzip.compress(payload)
    (tmp_path / "x").write_bytes(package)
    reports = check(tmp_path / "x")
    assert names(reports) == ["usr/prog", "usr/same"]
    assert not reasons(reports)
