"""Outputs of every kind, disks that are full, and linkers that are killed: what is left is absent, plain or whole."""

import errno
import os
import random
import re
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import HUGEALIGN, MORE_OF_A_LINK, ROOT, Elf, Toolchain, environment, run

LINKERS = ("gcc-bfd", "gcc-lld19", "gcc-mold", "gcc-gold")

_MOLDS = r"\.?mold-\w+|\.out\.\d+"  # what mold calls its unfinished file: mold 1, mold 2


@pytest.fixture(params=LINKERS)
def linker(request: pytest.FixtureRequest, toolchains: dict[str, Toolchain]) -> Toolchain:
    """One compiler with each linker."""
    return toolchains[request.param].needed()


def assert_good(output: Path, linker: Toolchain) -> None:
    assert Elf(output).faults(exact=linker.linker != "gold") == []
    assert run(output).returncode == 0


def test_existing_outputs(linker: Toolchain, main: Path, bulk: Path, tmp_path: Path) -> None:
    """A symbolic link, a hard link, a file that is read-only, one that runs: what becomes of each is as without us."""
    for number, wrap in enumerate(([], [str(HUGEALIGN)])):
        directory = tmp_path / str(number)
        directory.mkdir()
        for name in ("target", "hard", "read-only"):
            (directory / name).write_text("old")
        (directory / "symlink").symlink_to("target")
        (directory / "other-hard").hardlink_to(directory / "hard")
        (directory / "read-only").chmod(0o444)
        shutil.copy("/bin/sleep", directory / "running")
        sleeper = subprocess.Popen([directory / "running", "60"])
        seen = {}
        for name in ("symlink", "hard", "read-only", "running"):
            done = run(*wrap, *linker.command(main, bulk, "-o", directory / name))
            seen[name] = (done.returncode, done.stderr.replace(str(directory), ""), (directory / name).is_symlink())
        seen["other-hard"] = (0, "", (directory / "other-hard").read_bytes() == b"old")
        sleeper.kill()
        sleeper.wait()
        if number == 0:
            plain = seen
        else:
            assert seen == plain
            for name in ("symlink", "hard", "read-only", "running"):
                if seen[name][0] == 0:
                    assert_good(directory / name, linker)


@pytest.mark.parametrize("ordered", [False, True])
def test_reports_name_files_that_are_there(
    linker: Toolchain, main: Path, bulk: Path, tmp_path: Path, ordered: bool
) -> None:
    """A build tool links again whenever a file that a dependency file names is missing or new."""
    (tmp_path / "an order").write_text("# hugealign.order/1\n# windows: 1\n# window: 1\nmain\tsamples=5\n")
    directory = tmp_path / "with space"
    directory.mkdir()
    run("gcc", "-ffunction-sections", "-c", main.with_suffix(".c"), "-o", main, check=True)
    inputs = [shutil.copy(path, directory) for path in (main, bulk)]
    reports = ("-Wl,-Map=out.map", "-Wl,--dependency-file=out.d")
    profile = ["--profile=an order"] if ordered else []
    words = linker.command(*inputs, *reports, "-o", "out")
    done = run(HUGEALIGN, *profile, *words, cwd=tmp_path, HUGEALIGN_MIN_TEXT="2K")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    dependencies, map_ = ((tmp_path / name).read_text() for name in ("out.d", "out.map"))
    assert "/proc/" not in dependencies + map_
    spaced = re.sub(r"(?<!\\) (?=space/)", r"\ ", dependencies)  # not every linker escapes those of the user
    named = [word.replace("\\ ", " ") for word in re.findall(r"(?:\\.|[^\s\\:])+", spaced.partition(":")[2])]
    assert str(inputs[0]) in named
    assert str(ROOT / "ld-scripts" / "pad-x86_64.o") in named
    assert [name for name in named if not (tmp_path / name).exists()] == []
    assert (str(tmp_path / "an order") in named) == (ordered and linker.linker != "mold")


@pytest.mark.parametrize(("map_", "written"), [("%", "out.map"), ("maps", "maps/out.map"), ("x%y", "xouty")])
def test_a_map_named_after_the_output(map_: str, written: str, main: Path, bulk: Path, tmp_path: Path) -> None:
    """GNU ld takes a directory, and ``%`` for the output."""
    (tmp_path / "maps").mkdir()
    run(HUGEALIGN, "gcc", "-fuse-ld=bfd", main, bulk, "-o", "out", f"-Wl,-Map={map_}", cwd=tmp_path, check=True)
    assert "/proc/" not in (tmp_path / written).read_text()


def test_dev_null(linker: Toolchain, main: Path, bulk: Path) -> None:
    words = linker.command(main, bulk, "-o", "/dev/null")
    plain, wrapped = run(*words), run(HUGEALIGN, *words)
    assert (wrapped.returncode, wrapped.stderr) == (plain.returncode, plain.stderr)
    assert not Path("/dev/null").is_file()


def test_directory_that_cannot_be_written(linker: Toolchain, main: Path, bulk: Path, tmp_path: Path) -> None:
    for output in (tmp_path / "no" / "such" / "out", Path("/proc/out"), tmp_path):
        words = linker.command(main, bulk, "-o", output)
        plain, wrapped = run(*words), run(HUGEALIGN, *words)
        assert plain.returncode != 0
        printed = [re.sub(_MOLDS, "TEMPORARY", done.stderr) for done in (plain, wrapped)]
        assert (wrapped.returncode, printed[1]) == (plain.returncode, printed[0])


def test_file_size_limit(linker: Toolchain, main: Path, bulk: Path, tmp_path: Path) -> None:
    """ulimit -f between the plain size and the padded one: the plain link is done instead, or fails as it would."""
    limited = f"ulimit -f {3600 * 2}; exec "  # sh counts blocks of 512 bytes
    words = " ".join(f"'{word}'" for word in linker.command(main, bulk, "-o", tmp_path / "out"))
    plain = run("sh", "-c", limited + words)
    (tmp_path / "out").unlink(missing_ok=True)
    wrapped = run("sh", "-c", f"{limited}'{HUGEALIGN}' {words}")
    assert wrapped.returncode == plain.returncode, wrapped.stderr
    if plain.returncode == 0:
        assert run(tmp_path / "out").returncode == 0


def test_disk_full(linker: Toolchain, main: Path, bulk: Path, tmp_path: Path) -> None:
    """Room for the plain file and not for the padded one, on a file system of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=3500k none '{disk}' || exit 77; "
    words = " ".join(f"'{word}'" for word in linker.command(main, bulk, "-o", disk / "out"))
    script = f"{mount}'{HUGEALIGN}' {words}; status=$?; ls '{disk}'; '{disk}/out' || exit 99; exit $status"
    done = run("unshare", "-m", "sh", "-c", script)
    if done.returncode == 77 or "unshare:" in done.stderr:
        pytest.skip("cannot mount: needs root")
    if "out.tmp" in done.stdout:
        pytest.skip("lld, killed by SIGBUS, did not get to removing its temporary file; it fills the disk")
    plain = run("unshare", "-m", "sh", "-c", f"{mount}{words}; status=$?; '{disk}/out' || exit 99; exit $status")
    assert done.returncode == plain.returncode, done.stderr + plain.stderr


def test_no_proc(main: Path, bulk: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    script = f"mount -t tmpfs none /proc || exit 77; exec '{HUGEALIGN}' gcc '{main}' '{bulk}' -o '{output}'"
    done = run("unshare", "-m", "sh", "-c", script)
    if done.returncode == 77 or "unshare:" in done.stderr:
        pytest.skip("cannot mount: needs root")
    said = f"hugealign: warning: {output}: linked without huge-page layout: /proc is not mounted{MORE_OF_A_LINK}\n"
    assert (done.returncode, done.stderr) == (0, said)
    assert run(output).returncode == 0


def run_when_closed(program: Path) -> "subprocess.CompletedProcess[str]":
    """Run a program that a dying linker may still have open for writing."""
    for _ in range(200):
        try:
            return run(program)
        except OSError as error:
            if error.errno != errno.ETXTBSY:
                raise
            time.sleep(0.02)
    pytest.fail("the linker does not die")


def kill_some(linker: Toolchain, main: Path, bulk: Path, tmp_path: Path, times: int) -> None:
    """Kill a link at *times* moments; the file that is left runs, is missing, or is the linker's own unfinished one."""
    output = tmp_path / "out"
    words = [str(HUGEALIGN), *linker.command(main, bulk, "-o", output)]
    began = time.monotonic()
    run(*words, check=True)
    length = time.monotonic() - began
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    choose = random.Random(linker.name)
    complete = 0
    for _ in range(times):
        output.unlink(missing_ok=True)
        with subprocess.Popen(words, env=environment(TMPDIR=str(temporary)), start_new_session=True) as process:
            time.sleep(choose.uniform(0, length))
            os.killpg(process.pid, signal.SIGKILL)
        if not output.exists() or output.stat().st_size < 3000 * 1024 or not os.access(output, os.X_OK):
            continue
        try:
            done = run_when_closed(output)
        except OSError as error:
            assert error.errno == errno.ENOEXEC  # noqa: PT017  # gold writes the ELF header last
            continue
        # A linker killed while writing leaves the same without us; its last step is the execute bit.
        if done.returncode == 0:
            complete += 1
            continue
        with pytest.raises(Exception):  # noqa: B017, PT011  # so the file is unfinished: not even its headers agree
            assert_good(output, linker)
    # The compiler's own, which it also leaves without us.
    assert [path.name for path in temporary.iterdir() if not re.fullmatch(r"cc\w{6}\..+", path.name)] == []
    leftovers = {path.name for path in tmp_path.iterdir()} - {"out", "main.c", "main.o", "temporary"}
    # lld's and mold's own unfinished files, which they also leave without us.
    assert [name for name in leftovers if not re.fullmatch(rf"out\.tmp[0-9a-f]+|{_MOLDS}", name)] == []
    assert complete <= times


def test_killed_at_any_moment(linker: Toolchain, main: Path, bulk: Path, tmp_path: Path) -> None:
    kill_some(linker, main, bulk, tmp_path, 8)


@pytest.mark.matrix
def test_killed_at_many_moments(linker: Toolchain, main: Path, bulk: Path, tmp_path: Path) -> None:
    kill_some(linker, main, bulk, tmp_path, 200)


@pytest.mark.matrix
def test_many_links_at_once_in_one_directory(
    main: Path, bulk: Path, tmp_path: Path, toolchains: dict[str, Toolchain]
) -> None:
    usable = [t for t in toolchains.values() if not t.missing()]

    def one(number: int) -> tuple[int, str]:
        linker = usable[number % len(usable)]
        done = run(HUGEALIGN, *linker.command(main, bulk, "-o", tmp_path / f"out{number}"), cwd=tmp_path)
        return done.returncode, done.stderr

    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(one, range(20))) == {(0, "")}
    for number in range(20):
        assert_good(tmp_path / f"out{number}", usable[number % len(usable)])


def test_same_bytes_in_another_directory(linker: Toolchain, main: Path, bulk: Path, tmp_path: Path) -> None:
    contents = set()
    for name in ("one", "the other, with a longer name"):
        directory = tmp_path / name
        directory.mkdir()
        for path in (main, bulk):
            shutil.copy(path, directory)
        done = run(HUGEALIGN, *linker.command(main.name, bulk.name, "-o", "out"), cwd=directory, TMPDIR=str(directory))
        assert done.stderr == ""
        contents.add((directory / "out").read_bytes())
    assert len(contents) == 1
    assert b"hugealign/" not in contents.pop()


@pytest.mark.matrix
def test_two_megabytes_of_arguments(main: Path, bulk: Path, tmp_path: Path) -> None:
    """Nested response files with 40,000 words, as a large build makes them."""
    inner = tmp_path / "inner"
    inner.write_text("\n".join(f"-L{tmp_path}/no/such/directory/number/{n}" for n in range(40_000)))
    outer = tmp_path / "outer"
    outer.write_text(f"{main} @{inner} {bulk} -o {tmp_path / 'out'}\n")
    assert inner.stat().st_size > 2 << 20
    for words in (("gcc", f"-Wl,@{outer}"), ("gcc", f"@{outer}")):
        plain = run(*words)
        done = run(HUGEALIGN, *words)
        assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)
        if plain.returncode == 0:
            assert Elf(tmp_path / "out").faults() == []
