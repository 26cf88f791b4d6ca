"""A fixed file, and what everybody who reads ELF files says of it: the same as of the original."""

import re
import shutil
from pathlib import Path

import pytest

from tests.link.bulk import MAIN, bulk_source
from tests.support import HUGEALIGN, Elf, run

WINDOW = 2 << 20
LLD = ("-fuse-ld=lld", "-B/usr/lib/llvm-19/bin")
#: How the original is made.  Those with "patched" have gone through patchelf, which puts a window in front of programs
#: at fixed addresses, where .dynstr and others begin in one segment and end in the next.
ORIGINALS = {
    "bfd pie": ("-pie",),
    "bfd fixed": ("-no-pie",),
    "bfd library": ("-shared",),
    "bfd fixed patched": ("-no-pie",),
    "bfd pie patched": ("-pie",),
    "lld pie": ("-pie", *LLD),
    "lld fixed": ("-no-pie", *LLD),
    "gold pie": ("-pie", "-fuse-ld=gold"),
    "mold pie": ("-pie", "-fuse-ld=mold"),
    "mold fixed": ("-no-pie", "-fuse-ld=mold"),
}
#: Those of `make test`.
SOME = ("bfd pie", "bfd fixed patched", "lld fixed")
READERS = {
    "nm": "nm {f}",
    "nm -D": "nm -D {f}",
    "readelf -s": "readelf -sW {f}",
    "readelf -d": "readelf -dW {f}",
    "readelf -r": "readelf -rW {f}",
    "readelf -n": "readelf -nW {f}",
    "readelf -V": "readelf -VW {f}",
    "readelf --debug-dump=frames": "readelf --debug-dump=frames {f}",
    "objdump -T": "objdump -T {f}",
    "objdump -p": "objdump -p {f} | sed '/^Program Header/,/^$/d'",
    "objdump -d": "objdump -d --disassemble=main {f}",
    "objdump -s": "objdump -s -j .dynstr -j .dynsym -j .interp -j .eh_frame_hdr {f}",
    "gdb": "gdb -nx -batch -ex 'disassemble main' -ex 'info functions big_sum' -ex 'x/4i bulk77' {f}",
    "eu-readelf": "eu-readelf -s -d -n -V {f}",
    "eu-nm": "eu-nm -D {f}",
    "dpkg-shlibdeps": "dpkg-shlibdeps -O -e{f}",
    "addr2line": "addr2line -f -e {f} main big_sum",
    "size of its libraries": "ldd {f} | sed 's/0x[0-9a-f]*//'",
}
#: What others do to it afterwards.  --page-size: see docs/explanation/fixed-files.md.
WRITERS = {
    "strip": "strip {f}",
    "eu-strip": "eu-strip {f}",
    "llvm-strip-19": "llvm-strip-19 {f}",
    "patchelf --page-size": f"patchelf --page-size 2097152 --set-rpath /{'x' * 200} {{f}}",
}
#: Places in the file, and its size, which a fix changes.
_PLACES = re.compile(
    r"(?i)(at )?offset:? (0x)?[0-9a-f]+|0x[0-9a-f]+ contains|start of section headers.*|\b(file off|size): .*"
)


def written(place: Path) -> tuple[Path, Path]:
    """The sources; their names fill more than a page, so that they reach from one segment into the next."""
    main, bulk = place / "main.c", place / "bulk.s"
    names = "".join(f"int a_function_with_a_rather_long_name_{n}(void) {{ return {n}; }}\n" for n in range(200))
    main.write_text(f"{names}{MAIN}")
    bulk.write_text(bulk_source())
    return main, bulk


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=() if name in SOME else pytest.mark.matrix) for name in ORIGINALS]
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, bool]:
    """The original and the fixed file, of the same name, and whether it is a program."""
    flags = ORIGINALS[request.param]
    work = tmp_path_factory.mktemp("readers")
    for linker in ("gold", "mold"):
        if f"-fuse-ld={linker}" in flags and not shutil.which(f"ld.{linker}"):
            pytest.skip(f"ld.{linker} is not installed")
    if flags[-2:] == LLD and not Path("/usr/lib/llvm-19/bin/ld.lld").exists():
        pytest.skip("LLD 19 is not installed")
    sources = written(work)
    old, new = work / "old" / "file", work / "new" / "file"
    for path in (old, new):
        path.parent.mkdir()
        (path.parent / "debian").mkdir()
        (path.parent / "debian" / "control").write_text("Source: s\n\nPackage: s\nArchitecture: any\n")
    code = () if "-pie" not in flags and "-shared" not in flags else ("-fPIC",)
    words = ("-rdynamic", *sources, "-Wl,-z,max-page-size=0x1000", "-o", old)
    run("gcc", "-g", *code, *flags, *words, check=True)
    if request.param.endswith("patched"):
        run("patchelf", "--page-size", "2097152", "--set-rpath", "$ORIGIN/libs/of/this/wheel", old, check=True)
    done = run(HUGEALIGN, "fix", "--level=shift", old, "-o", new)
    assert done.returncode == 0, done.stderr
    assert new.read_bytes() != old.read_bytes()
    return old, new, "-shared" not in flags


def message(command: str, path: Path) -> tuple[int, str]:
    done = run("sh", "-c", command.format(f="./file"), cwd=path.parent)
    text = (done.stdout + done.stderr).replace(str(path.parent), "")
    return done.returncode, _PLACES.sub("", text)


def test_verify_passes(pair: tuple[Path, Path, bool]) -> None:
    """What a fix can do no better is not a failure."""
    old, new, _ = pair
    assert run(HUGEALIGN, "verify", old).returncode == 1
    done = run(HUGEALIGN, "verify", new)
    assert (done.returncode, "HA003" in done.stdout, "HA004" in done.stdout) == (0, False, False)


@pytest.mark.parametrize("reader", READERS)
def test_readers(pair: tuple[Path, Path, bool], reader: str) -> None:
    command = READERS[reader]
    if not shutil.which(command.split()[0]):
        pytest.skip(f"{command.split()[0]} is not installed")
    old, new, _ = pair
    before = message(command, old)
    assert before[1]
    assert message(command, new) == before


@pytest.mark.parametrize("writer", WRITERS)
def test_writers(pair: tuple[Path, Path, bool], writer: str, tmp_path: Path) -> None:
    """What has been written runs, and keeps its windows."""
    command = WRITERS[writer]
    if not shutil.which(command.split()[0]):
        pytest.skip(f"{command.split()[0]} is not installed")
    old, new, program = pair
    if command.startswith("patchelf") and Elf(old).type == "ET_EXEC" and Elf(old).loads[0]["p_vaddr"] <= WINDOW:
        pytest.skip("there is no room in front of the program for a window")
    windows = []
    for name, path in (("old", old), ("new", new)):
        copy = tmp_path / name / "file"
        copy.parent.mkdir()
        shutil.copy(path, copy)
        done = run("sh", "-c", command.format(f=f"'{copy}'"))
        assert done.returncode == 0, done.stderr
        if program:
            assert run(copy).returncode == 0, name
        windows.append(re.findall(r"in (\d+) windows?", run(HUGEALIGN, "verify", copy).stdout))
    assert windows[1] == re.findall(r"in (\d+) windows?", run(HUGEALIGN, "verify", new).stdout)


def test_patchelf_that_moves_the_file_by_a_page(tmp_path: Path) -> None:
    """Without --page-size it does, for programs at fixed addresses: no window is left, and verify says so."""
    if not shutil.which("patchelf"):
        pytest.skip("patchelf is not installed")
    plain, fixed, patched = (tmp_path / name for name in ("plain", "fixed", "patched"))
    run("gcc", "-no-pie", "-rdynamic", *written(tmp_path), "-o", plain, check=True)
    run(HUGEALIGN, "fix", plain, "-o", fixed, check=True)
    shutil.copy(plain, patched)
    for path in (fixed, patched):
        run("patchelf", "--set-rpath", f"/{'x' * 200}", path, check=True)
        assert run(path).returncode == 0
    done = run(HUGEALIGN, "verify", fixed)
    assert (done.returncode, "HA002" in done.stdout, "in 0 windows" in done.stdout) == (1, True, True)
    assert all((s["p_vaddr"] - s["p_offset"]) % WINDOW for s in Elf(fixed).text)
    # Nor can the patched one be fixed: a section would be in two places.
    done = run(HUGEALIGN, "fix", patched, "-o", tmp_path / "out")
    assert (done.returncode, (tmp_path / "out").exists()) == (1, False)
    # What the refusal names helps.
    assert "patch the original with --page-size 2097152" in done.stderr
    run("patchelf", "--page-size", "2097152", "--set-rpath", f"/{'x' * 200}", plain, check=True)
    run(HUGEALIGN, "fix", plain, "-o", tmp_path / "out", check=True)
    assert run(tmp_path / "out").returncode == 0


def test_patchelf_of_a_laid_out_program_of_mold(tmp_path: Path) -> None:
    """Its .relro_padding is almost a window, which patchelf would move to the front if it had the offset 0."""
    for tool in ("patchelf", "ld.mold"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    words = ("-no-pie", "-fuse-ld=mold", *written(tmp_path), "-o", tmp_path / "program")
    run(HUGEALIGN, "gcc", *words, check=True)
    done = run("patchelf", "--set-rpath", f"/{'x' * 200}", tmp_path / "program")
    assert (done.returncode, run(tmp_path / "program").returncode) == (0, 0), done.stderr
