"""Binary formats through the tools that read them, made by the real ones of the program in tests/profiles."""

import contextlib
import gzip
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hugealign.elf.image import read_file
from hugealign.profile import tools
from hugealign.profile.model import BY_NAME, ProfileError
from tests.commands.profiles import SAMPLES, arcs, functions_of, load, named, pprof
from tests.support import HUGEALIGN, LLVM, environment, need, run

ODD = r"odd name\(x)"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("made")
    subprocess.run([SAMPLES / "make.sh", directory], check=True, capture_output=True)
    return directory


def existing(path: Path, *needed: str) -> Path:
    """Skip, with the reason, if make.sh could not make *path*."""
    missing = [tool for tool in needed if not shutil.which(tool)]
    if missing:
        pytest.skip(f"no {missing[0]}")
    if not path.exists() or not path.stat().st_size:
        pytest.skip(f"{needed[0]} could not make {path.name} here (perf: kernel.perf_event_paranoid?)")
    return path


def record(data: Path, *words: str | Path, check: bool = False) -> Path:
    """Record *words*, which may begin with options of perf, and return *data*; skip if perf cannot."""
    command = ("perf", "record", "-q", "-e", "cpu-clock:u", "-F", "5000", "-o", data, *words)
    subprocess.run(command, check=check, capture_output=True)
    return existing(data, "perf")


@pytest.mark.parametrize(
    ("data", "program"),
    [
        pytest.param("flat.data", "prog", marks=pytest.mark.matrix),
        pytest.param("fixed-flat.data", "fixed", marks=pytest.mark.matrix),
        # perf 6.1 prints a call chain as offsets in the file, even where the program is not moved.
        ("stacks.data", "prog"), ("fixed-stacks.data", "fixed"),
        # perf 6.1 writes no build-ids of these: by name.
        ("packed.data", "prog"), ("pipe.data", "prog"),
    ],
)  # fmt: skip
def test_perf_data_that_was_made(made: Path, data: str, program: str) -> None:
    """By addresses: the two helpers are told apart, which their names cannot be."""
    path, functions = existing(made / data, "perf"), functions_of(made / program)
    profile, matched, form = load(path, made / program)
    samples = named(matched.samples, functions)
    listed = subprocess.run(["perf", "buildid-list", "-i", path], capture_output=True, text=True, check=True).stdout
    by_name = functions.build_id not in listed
    assert form == "perf.data"
    assert matched.rate > 0.99
    assert ["by name" in note for note in profile.notes] == [True] * by_name
    assert not by_name or program == "prog"
    if "flat" in data:  # how many samples land in so short a function, and not in its caller, differs from run to run
        assert min(samples["helper@main.c"], samples["helper@other.c"]) > 0
        output = subprocess.run(["perf", "script", "-i", path, "-F", "ip"], capture_output=True, check=True).stdout
        assert matched.total + matched.foreign == len(output.splitlines())
    if "stacks" in data or data == "pipe.data":
        assert arcs(matched, functions)["main", "hot"] > 20
    if "stacks" in data:
        assert {*samples} >= {"main", "hot", "work"}  # and the helpers, if a sample hit them
    else:
        assert samples["hot"] > 20


_CLANG = {"helper@main.c": 5000, "helper@other.c": 1250 + 157}
_SAMPLED = {("main", "hot"): 1, ("main", "work"): 1, ("main", "other"): 20, ("hot", "helper@main.c"): 90}


@pytest.mark.parametrize(
    ("path", "tool", "form", "samples", "calls"),
    [
        # As exact as BOLT's of the same run.
        ("prog.callgrind", "valgrind", "callgrind", {}, {("main", "hot"): 1, ("hot", ODD): 313}),
        ("prog.fdata", "/usr/lib/llvm-19/bin/llvm-bolt", "fdata", {}, {("hot", "helper@main.c"): 20000}),
        ("gcov/prog-main.gcda", "gcov", "gcda", {"hot": 1, "helper@main.c": 5000, "main": 1}, {}),
        # Local functions come with their files.
        *((f"llvm/{name}", "clang-19", "profdata", _CLANG, {}) for name in ("prog.profraw", "prog-ir.profraw")),
        ("llvm/prog.profdata", "clang-19", "profdata", _CLANG, {}),
        ("llvm/prog.proftext", "clang-19", "llvm-text", _CLANG, {}),
        ("llvm/sample.profdata", "clang-19", "llvm-sample", {"main": 184019}, _SAMPLED),
    ],
)
def test_exact_counts(
    made: Path, path: str, tool: str, form: str, samples: dict[str, int], calls: dict[tuple[str, str], int]
) -> None:
    profile, matched, found = load(existing(made / path, tool), made / "prog")
    seen, arcs_seen = named(matched.samples, functions_of(made / "prog")), arcs(matched, functions_of(made / "prog"))
    assert found == form
    assert matched.rate > 0.98  # what ran had another name for `odd`
    assert (profile.foreign > 0) == (form in ("callgrind", "fdata"))
    assert samples.items() <= seen.items()
    assert calls.items() <= arcs_seen.items()
    assert "never" not in seen  # what never ran is not touched
    if form == "gcda":  # of one source
        assert seen == samples
    if form == "llvm-sample":
        assert arcs_seen == calls
        assert load(SAMPLES / "autofdo.txt", made / "prog")[1:] == (matched, "autofdo")


def test_perf_data_that_is_a_directory(made: Path, tmp_path: Path) -> None:
    """As `perf record --threads` writes it: a file for each thread beside the first."""
    existing(made / "flat.data", "perf")
    data = record(tmp_path / "data", "--threads", made / "prog", "80000000")
    _, matched, form = load(data, made / "prog")
    assert form == "perf.data"
    assert named(matched.samples, functions_of(made / "prog"))["hot"] > 20
    done = run(HUGEALIGN, "order", tmp_path / "data", cwd=tmp_path)
    assert "using" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_perf_data_of_another_user(made: Path, tmp_path: Path) -> None:
    data = shutil.copy(existing(made / "flat.data", "perf"), tmp_path)
    os.chown(data, 65534, 65534)
    done = run(HUGEALIGN, "order", data, "-b", made / "prog")
    assert done.returncode == 3
    assert "another user" in done.stderr
    assert done.stderr.count("\n") == 1
    os.chown(data, 0, 0)
    assert run(HUGEALIGN, "order", data, "-b", made / "prog").returncode == 0


@pytest.mark.parametrize("data", ["flat.data", "stacks.data"])
def test_perf_data_of_another_build(made: Path, tmp_path: Path, data: str) -> None:
    """Its addresses mean nothing; the names do."""
    existing(made / data, "perf")
    other = tmp_path / "prog"
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", made / "prog", other], check=True)
    profile, matched, _ = load(made / data, other)
    assert "by name" in profile.notes[0]
    assert named(matched.samples, functions_of(other))["hot"] > 20
    assert matched.rate > 0.99


def test_perf_data_of_a_stripped_program(made: Path, tmp_path: Path) -> None:
    """Unwind information gives the functions; the addresses still fit, the build-id is the same."""
    data = existing(made / "flat.data", "perf")
    stripped = tmp_path / "prog"
    subprocess.run(["strip", made / "prog", "-o", stripped], check=True)
    _, matched, _ = load(data, stripped)
    with_names = load(data, made / "prog")[1]
    functions, full = functions_of(stripped), functions_of(made / "prog")
    assert functions.source == ".eh_frame and .dynsym"
    assert matched.rate > 0.99
    hot = full.by_name["hot"][0]
    assert matched.samples[functions.at(full.starts[hot])] == with_names.samples[hot]


def test_packed_perf_data(made: Path, tmp_path: Path) -> None:
    data = existing(made / "flat.data", "perf")
    with (tmp_path / "p.gz").open("wb") as file:
        subprocess.run(["gzip", "-c", data], stdout=file, check=True)
    assert load(tmp_path / "p.gz", made / "prog")[1] == load(data, made / "prog")[1]


@pytest.mark.parametrize("words", [[], ["-g"]])
def test_perf_data_of_a_program_that_was_replaced(made: Path, tmp_path: Path, words: list[str]) -> None:
    """What lies under the recorded path now is not looked at, if -b names the build that ran."""
    running, kept, data = tmp_path / "prog", tmp_path / "kept", tmp_path / "data"
    shutil.copy(made / "prog", running)
    record(data, *words, running, "80000000")
    before = load(data, running)[1]
    running.rename(kept)
    shutil.copy(made / "fixed", running)
    profile, matched, _ = load(data, kept)
    assert not profile.notes
    assert matched == before
    assert named(matched.samples, functions_of(kept))["hot"] > 20


@pytest.mark.parametrize("chains", [[], ["-g"]], ids=["flat", "chains"])
@pytest.mark.parametrize(
    "words",
    [
        "-Wl,-z,separate-code",
        "-Wl,-z,noseparate-code",
        "-no-pie",
        f"-fuse-ld=lld -B{LLVM['lld19']}",  # addresses are not offsets
        "-Wl,--section-start=.fini=0x900000",  # two segments
    ],
)
def test_perf_data_and_a_debug_file(made: Path, tmp_path: Path, words: str, chains: list[str]) -> None:
    """A debug file does not say where in the program's file the text lies; where it was mapped does."""
    running, data, debug = tmp_path / "prog", tmp_path / "data", tmp_path / "kept.debug"
    link: list[str | Path] = ["gcc", "-Wl,--build-id", *words.split(), made / "main.o", made / "other.o", "-o", running]
    subprocess.run(link, check=True)
    record(data, *chains, running, "80000000")
    subprocess.run(["objcopy", "--only-keep-debug", running, debug], check=True)
    before = load(data, running)[1]
    assert named(before.samples, functions_of(running))["hot"] > 20
    _, matched, _ = load(data, debug)
    assert matched.samples == before.samples
    if not chains:  # the code tells which frames are callers
        assert matched == before


@pytest.mark.matrix
@pytest.mark.parametrize("chains", [[], ["-g"]], ids=["flat", "chains"])
def test_perf_data_and_a_fixed_program(made: Path, tmp_path: Path, chains: list[str]) -> None:
    """Below separate, build-id and addresses stay, and the text moves in the file: either will do for both recordings.

    A separated program is a build of its own, whose profile is one of it.
    """
    plain, fixed, debug = (tmp_path / name for name in ("plain", "fixed", "debug"))
    link: list[str | Path] = ["gcc", "-Wl,--build-id", "-fuse-ld=lld", f"-B{LLVM['lld19']}"]
    subprocess.run([*link, made / "main.o", made / "other.o", made / "pad.o", "-o", plain], check=True)
    shift = ("fix", "--level=shift", "--max-executable=1G", "-o", fixed)
    assert "of the file move to" in run(HUGEALIGN, *shift, plain, check=True).stdout
    subprocess.run(["objcopy", "--only-keep-debug", plain, debug], check=True)
    for running in (plain, fixed):
        data = record(tmp_path / "data", *chains, running, "80000000")
        expected = load(data, running)[1].samples
        assert named(expected, functions_of(running))["hot"] > 20
        for binary in (plain, fixed, debug):
            profile, matched, _ = load(data, binary)
            assert (matched.samples, profile.notes) == (expected, [])
        (text,) = read_file(running).text_segments
        first, last, offset = (
            at >> 12 << 12 for at in (text.p_vaddr, text.p_vaddr + text.p_memsz + 4095, text.p_offset)
        )
        (tmp_path / "pprof").write_bytes(pprof(functions_of(running), (first, last, offset), running))
        for binary in (plain, fixed, debug):
            result = named(load(tmp_path / "pprof", binary)[1].samples, functions_of(binary))
            assert result == {"hot": 12, "main": 0}
    fixed.unlink()
    profile, matched, _ = load(data, plain)
    assert (["where this file has none" in note for note in profile.notes], matched.samples) == ([True], {})
    separated = tmp_path / "separated"
    run(HUGEALIGN, "fix", "-o", separated, plain, check=True, HUGEALIGN_MIN_TEXT="0")
    record(data, *chains, separated, "80000000")
    profile, matched, _ = load(data, separated)
    assert profile.notes == []
    assert named(matched.samples, functions_of(separated))["hot"] > 20
    assert [BY_NAME in note for note in load(data, plain)[0].notes] == [True]


@pytest.mark.parametrize("chains", [[], ["-g"]], ids=["flat", "chains"])
def test_perf_data_of_a_copy_under_the_programs_name(made: Path, tmp_path: Path, chains: list[str]) -> None:
    """As of `hugealign run --fix`: perf reads the build-id where the program is, and its copy ran.

    Nothing is taken for the program's; the copy, made again under any name, has all of it.
    """
    plain, copy, running, data = (tmp_path / name for name in ("plain", "copy", "prog", "data"))
    subprocess.run(
        ["gcc", "-Wl,--build-id", made / "main.o", made / "other.o", made / "pad.o", "-o", plain], check=True
    )
    run(HUGEALIGN, "fix", "-o", copy, plain, check=True, HUGEALIGN_MIN_TEXT="0")
    shutil.copy(copy, running)
    script = f"{running} 80000000; mv {shutil.copy(plain, tmp_path / 'again')} {running}"
    record(data, *chains, "sh", "-c", script, check=True)
    listed = subprocess.run(["perf", "buildid-list", "-i", data], capture_output=True, text=True, check=True).stdout
    assert functions_of(plain).build_id in listed
    assert functions_of(copy).build_id not in listed
    for binary in (plain, running):
        profile, matched, _ = load(data, binary)
        assert (["where this file has none" in note for note in profile.notes], matched.samples) == ([True], {})
    for binary in (copy, Path(shutil.copy(copy, tmp_path / "renamed"))):
        profile, matched, _ = load(data, binary)
        assert named(matched.samples, functions_of(binary))["hot"] > 20
        assert (profile.notes, matched.rate) == ([], 1)
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "prog"  # of another build, by names, which perf would take from the original
    subprocess.run(["gcc", "-Wl,--build-id", "-O0", SAMPLES / "main.c", SAMPLES / "other.c", "-o", other], check=True)
    with pytest.raises(ProfileError, match="no names of what ran"):
        load(data, other)


def test_names_and_a_debug_file(made: Path, tmp_path: Path) -> None:
    """Where names alone are known, the file's name without `.debug` tells which are the program's."""
    debug = tmp_path / "prog.debug"
    subprocess.run(["objcopy", "--only-keep-debug", made / "prog", debug], check=True)
    for name, tool in (("prog.callgrind", "valgrind"), ("stacks.txt", "perf"), ("addresses.txt", "perf")):
        if (made / name).exists():
            assert load(made / name, debug)[1].samples == load(made / name, made / "prog")[1].samples
        assert (made / name).exists() or not shutil.which(tool)


INLINED = """\
#include <stdlib.h>
static inline __attribute__((always_inline)) long within(long x) {
    for (int i = 0; i < 20; i++) x = x * 3 + i ^ (x >> 3);
    return x;
}
__attribute__((noinline)) long whole(long x) { return within(x) + within(x + 1); }
int main(int count, char **words) {
    long sum = 0, end = atol(words[1]);
    for (long i = 0; i < end; i++) sum += whole(i);
    return sum == count;
}
"""


@pytest.mark.parametrize("build_id", ["sha1", "none"])
def test_perf_data_of_inlined_functions(tmp_path: Path, build_id: str) -> None:
    """Versions of perf that read debug information print a frame for each, which is not where a sample lies."""
    (tmp_path / "main.c").write_text(INLINED)
    flags = ["-O2", "-g", "-fno-omit-frame-pointer", f"-Wl,--build-id={build_id}"]
    subprocess.run(["gcc", *flags, "main.c", "-o", "prog"], cwd=tmp_path, check=True)
    data = record(tmp_path / "data", "-g", tmp_path / "prog", "20000000")
    profile, matched, _ = load(data, tmp_path / "prog")
    samples = named(matched.samples, functions_of(tmp_path / "prog"))
    assert samples["whole"] > 50
    assert set(samples) <= {"whole", "main", "_start"}
    assert profile.foreign < samples["whole"] / 10


def test_samples_of_ours_may_come_late(made: Path, tmp_path: Path) -> None:
    """Whether chains have offsets depends on the first of any file, not by reading up to ours."""
    script = f"{sys.executable} -c 'sum(range(3000000))'; {made / 'fixed'} 80000000"
    data = record(tmp_path / "data", "-g", "sh", "-c", script)
    _, matched, _ = load(data, made / "fixed")
    assert matched.foreign > 20
    assert matched.rate > 0.99
    assert arcs(matched, functions_of(made / "fixed"))["main", "hot"] > 20


def test_perf2bolt(made: Path) -> None:
    """The same samples, aggregated by BOLT."""
    path = existing(made / "no_lbr.fdata", "/usr/lib/llvm-19/bin/perf2bolt", "perf")
    ours = load(made / "flat.data", made / "prog")[1]
    assert load(path, made / "prog")[1].samples == {i: n for i, n in ours.samples.items() if n}


def test_gcov_without_notes(made: Path, tmp_path: Path) -> None:
    shutil.copy(existing(made / "gcov" / "prog-main.gcda", "gcov"), tmp_path / "x.gcda")
    with pytest.raises(ProfileError, match="gcno"):
        load(tmp_path / "x.gcda", made / "prog")


@pytest.mark.parametrize("words", [["--binary"], ["--extbinary"], ["--extbinary", "--use-md5"]])
def test_forms_of_llvm_sample_profiles(made: Path, tmp_path: Path, words: list[str]) -> None:
    """Raw as create_llvm_prof writes it, and extensible, also with hashes instead of names."""
    existing(made / "llvm" / "sample.profdata", "clang-19")
    merge: list[str | Path] = ["llvm-profdata-19", "merge", "--sample", *words]
    subprocess.run([*merge, SAMPLES / "autofdo.txt", "-o", tmp_path / "p"], check=True)
    assert load(tmp_path / "p", made / "prog")[1:] == (
        load(SAMPLES / "autofdo.txt", made / "prog")[1], "llvm-sample",
    )  # fmt: skip


def test_pprof(made: Path, tmp_path: Path) -> None:
    """A profile.proto written here, field by field."""
    existing(made / "prog", "gcc")
    functions = functions_of(made / "prog")
    proto = pprof(functions)
    (tmp_path / "p").write_bytes(proto)
    _, matched, form = load(tmp_path / "p", made / "prog")
    assert form == "pprof"
    assert named(matched.samples, functions) == {"hot": 12, "main": 0}
    assert arcs(matched, functions) == {("main", "hot"): 12}


_GO = """package main
import ("os"; "runtime"; "runtime/pprof")
//go:noinline
func leaf(n int) (s int) { for i := 0; i < n; i++ { s += i * i % 7 }; return }
//go:noinline
func middle(n int) int { return leaf(n) + 1 }
var kept [][]byte
func main() {
  if len(os.Args) > 1 {
    for i := 0; i < 1000; i++ { kept = append(kept, make([]byte, 65536)) }
    runtime.GC()
    pprof.Lookup(os.Args[1]).WriteTo(os.Stdout, 0)
    return
  }
  pprof.StartCPUProfile(os.Stdout)
  s := 0
  for i := 0; i < 3000; i++ { s += middle(1000000) % 3 }
  pprof.StopCPUProfile()
  os.Exit(s & 0)
}
"""


@pytest.mark.matrix  # it compiles Go's own library
@pytest.mark.skipif(not shutil.which("go"), reason="no go")
def test_pprof_of_go_itself(tmp_path: Path) -> None:
    """What Go's own runtime wrote, and damage to it; what does not say what ran is refused."""
    (tmp_path / "main.go").write_text(_GO)
    environ = os.environ | {"GOCACHE": str(tmp_path / "cache"), "GOFLAGS": "-mod=mod", "GO111MODULE": "off"}
    subprocess.run(["go", "build", "-o", "server", "main.go"], cwd=tmp_path, env=environ, check=True)
    (tmp_path / "p").write_bytes(subprocess.run([tmp_path / "server"], capture_output=True, check=True).stdout)
    _, ours, form = load(tmp_path / "p", tmp_path / "server")
    assert form == "pprof"
    functions = functions_of(tmp_path / "server")
    assert named(ours.samples, functions)["main.leaf"] > 20
    assert arcs(ours, functions)["main.middle", "main.leaf"] > 20
    data = gzip.decompress((tmp_path / "p").read_bytes())
    for at in range(0, len(data), max(1, len(data) // 200)):
        (tmp_path / "cut").write_bytes(data[:at])
        with contextlib.suppress(ProfileError):
            load(tmp_path / "cut", tmp_path / "server", "pprof")
    for kind in ("heap", "allocs", "goroutine", "threadcreate"):
        (tmp_path / "p").write_bytes(
            subprocess.run([tmp_path / "server", kind], capture_output=True, check=True).stdout
        )
        with pytest.raises(ProfileError, match=r"^does not say what ran, but: "):
            load(tmp_path / "p", tmp_path / "server")


@pytest.mark.matrix  # Go compiles its pprof when it is first called
def test_pprof_of_gperftools(made: Path, tmp_path: Path) -> None:
    """What Go's pprof makes of it: addresses in a file whose build is not told."""
    profiler = next(Path("/usr/lib").glob("**/libprofiler.so.0"), None)
    if not profiler:
        pytest.skip("gperftools is not installed")
    raw, path = tmp_path / "prog.prof", tmp_path / "prog.pb.gz"
    settings = {"LD_PRELOAD": str(profiler), "CPUPROFILE": str(raw), "CPUPROFILE_FREQUENCY": "1000"}
    subprocess.run([made / "prog", "80000000"], env=os.environ | settings, check=False)
    run("go", "tool", "pprof", "-proto", "-symbolize=none", f"-output={path}", made / "prog", raw)
    existing(path, "go")
    _, matched, form = load(path, made / "prog")
    functions = functions_of(made / "prog")
    assert form == "pprof"
    assert matched.rate == 1
    assert named(matched.samples, functions)["hot"] > 20
    assert arcs(matched, functions)["main", "hot"] > 20
    # The same file under another name is another.
    shutil.copy(made / "prog", tmp_path / "other")
    assert load(path, tmp_path / "other")[1].samples == {}


AARCH64 = "aarch64-linux-gnu-gcc"


@pytest.fixture(scope="session")
def aarch64(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program for another processor, under the same name."""
    need(AARCH64)
    directory = tmp_path_factory.mktemp("aarch64")
    flags = ["-O1", "-fno-omit-frame-pointer", "-fno-reorder-functions", "-Wl,--build-id"]
    sources = [SAMPLES / "main.c", SAMPLES / "other.c"]
    subprocess.run([AARCH64, *flags, *sources, "-o", directory / "prog"], check=True)
    subprocess.run([AARCH64, "--coverage", *sources, "-o", "counted"], cwd=directory, check=True)
    return directory / "prog"


@pytest.mark.parametrize(
    "name", ["flat.data", "stacks.data", "flat.txt", "folded.txt", "prog.fdata", "prog.callgrind", "llvm/prog.profdata"]
)
def test_names_hold_for_another_processor(made: Path, aarch64: Path, name: str) -> None:
    existing(made / name, "perf")
    profile, matched, _ = load(made / name, aarch64)
    # The function with the odd name is another there, and its share of the time depends on the processor.
    assert {"main", "hot", "helper", "work", "other"}.isdisjoint(missing for missing, _ in matched.missing)
    assert matched.rate > 0.9
    assert "hot" in named(matched.samples, functions_of(aarch64))
    assert any("by name" in note for note in profile.notes) == name.endswith(".data")
    sizes = functions_of(aarch64).sizes
    assert all(offset is None or offset < sizes[caller] for caller, _, offset in matched.arcs)


def test_addresses_of_another_processor(made: Path, aarch64: Path) -> None:
    """No build-id tells, but these lie outside of the program: refused, with the reason."""
    done = run(HUGEALIGN, "order", existing(made / "addresses.txt", "perf"), "-b", aarch64)
    assert done.returncode == 1
    warning, error = done.stderr.splitlines()
    assert "text was mapped from a place where this file has none" in warning
    assert error.startswith("hugealign: error: no sample in the profile is in ")


def test_counts_of_another_processor(made: Path, aarch64: Path) -> None:
    """A program for aarch64 that ran there tells what to place here."""
    need("qemu-aarch64")
    directory = aarch64.parent
    words = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "./counted", "5000"]
    subprocess.run(words, cwd=directory, check=False)
    _, matched, form = load(directory / "counted-main.gcda", made / "prog")
    assert form == "gcda"
    assert named(matched.samples, functions_of(made / "prog"))["helper@main.c"] == 5000


def test_renamed_by_link_time_optimisation(made: Path, tmp_path: Path) -> None:
    """clang's full LTO renames one of two locals of a name, by a number that changes with the program."""
    existing(made / "symbols.txt", "clang-19")
    (tmp_path / "third.c").write_text(
        "__attribute__((noinline)) static unsigned helper(unsigned v) { return v * 3u ^ v >> 2; }\n"
        "unsigned third(unsigned v) { return helper(v) + helper(v + 1); }\n"
    )
    clang: list[str | Path] = ["clang-19", "-O1", "-flto", "-fuse-ld=lld", "-B/usr/lib/llvm-19/bin", SAMPLES / "main.c"]
    subprocess.run([*clang, "third.c", SAMPLES / "other.c", "-Wl,-u,third", "-o", "old"], cwd=tmp_path, check=True)
    subprocess.run([*clang, SAMPLES / "other.c", "-o", "new"], cwd=tmp_path, check=True)
    old, new = functions_of(tmp_path / "old"), functions_of(tmp_path / "new")
    (renamed,) = (name for name in new.names if name.startswith("helper."))
    before = next(name for name in old.names if name.startswith("helper.") and name not in new.by_name)
    (tmp_path / "p").write_text(f"helper 5\n{before} 7\n")
    assert named(load(tmp_path / "p", tmp_path / "new")[1].samples, new) == {"helper": 5, renamed: 7}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_copy_for_a_tool_goes_with_the_process(made: Path, tmp_path: Path, number: int) -> None:
    """It may be gigabytes of a profile."""
    words: list[str | Path] = [HUGEALIGN, "order", "/dev/stdin", "-b", made / "prog"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, env=environment(TMPDIR=str(tmp_path))) as process:
        assert process.stdin
        process.stdin.write(b"PERFILE2" + bytes(4 << 20))  # more than a pipe holds: most of it is in the copy
        process.send_signal(number)
        assert process.wait() == -number
    assert list(tmp_path.iterdir()) == []


def test_missing_tools_are_named(made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for data, package in (
        (b"PERFILE2", "linux-perf"), (b"adcg", "gcc"),
        (b"\xfflprofi\x81", "llvm"),
        (struct.pack("4B", 0x28, 0xB5, 0x2F, 0xFD), "zstd"),
    ):  # fmt: skip
        (tmp_path / "p").write_bytes(data)
        with pytest.raises(ProfileError, match=rf"not installed.*apt install {package}"):
            load(tmp_path / "p", made / "prog")


def test_a_tool_of_the_right_version_is_found(made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An llvm-profdata that cannot read the version does not end the work."""
    path = existing(made / "llvm" / "prog.profdata", "clang-19")
    (tmp_path / "llvm-profdata-25").write_text("#!/bin/sh\necho unsupported >&2\nexit 1\n")
    (tmp_path / "llvm-profdata-25").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert load(path, made / "prog")[2] == "profdata"
    assert tools.versions("llvm-profdata", package="llvm")[0] == str(tmp_path / "llvm-profdata-25")


def test_a_tool_that_hangs_or_fails() -> None:
    with (
        pytest.raises(ProfileError, match="longer than 1 s"),
        tools.output([sys.executable, "-c", "import time; time.sleep(60)"], 1) as stream,
    ):
        stream.read()
    with pytest.raises(ProfileError, match=r"cannot read it: bad.x1b"):
        tools.text([sys.executable, "-c", r"import sys; sys.exit('x\nbad\033[1m')"])
    with pytest.raises(ProfileError, match="prints more than"):
        tools.text(["yes"], limit=1 << 20)


def printing(mebibytes: int) -> list[str]:
    """Return a command that prints as much, each MiB of another byte, and says on its standard error how far it is."""
    words = "sys.stdout.buffer.write(bytes([n % 251]) * (1 << 20)); print(n, file=sys.stderr, flush=True)"
    return [sys.executable, "-c", f"import sys\nfor n in range({mebibytes}): {words}\nsys.exit(n < 99 and 'broken')"]


def test_a_tool_is_read_ahead() -> None:
    """It prints on while we think, more than a pipe holds; what it printed comes whole, in order, and ends once."""
    with tools.output(printing(100), ahead=True) as stream:
        first = stream.read(10)
        before = len(os.listdir("/proc/self/task"))
        pieces = list(iter(lambda: stream.read(3 << 19), b""))
        assert stream.read(1) == b""
    assert first + b"".join(pieces) == b"".join(bytes([n % 251]) * (1 << 20) for n in range(100))
    assert before > len(os.listdir("/proc/self/task"))


def test_reading_ahead_is_bounded(tmp_path: Path) -> None:
    """A tool that prints without end waits for us, and is stopped with us."""
    script = tmp_path / "endless"
    script.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec cat /dev/zero\n")
    script.chmod(0o755)

    def printed() -> int:
        counts = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/io").read_text()
        return int(counts.split("wchar:")[1].split()[0])

    with pytest.raises(ProfileError, match="enough"), tools.output([str(script)], ahead=True) as stream:  # noqa: PT012
        stream.read(10)
        last, size = -1, 0
        while last < size:
            time.sleep(0.3)
            last, size = size, printed()
        assert 8 << 20 < size < 80 << 20
        raise ProfileError("enough")
    assert [thread.name for thread in threading.enumerate() if "_fetch" in thread.name] == []
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()


def test_a_tool_that_is_read_ahead_and_fails() -> None:
    with pytest.raises(ProfileError, match="broken"), tools.output(printing(3), ahead=True) as stream:
        assert len(b"".join(iter(lambda: stream.read(1 << 20), b""))) == 3 << 20
