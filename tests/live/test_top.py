"""``hugealign top`` on this kernel: what it says of real processes, held against ``ps`` and smaps."""

import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import hugealign as api
from tests.documents import check
from tests.live import filesystems
from tests.live.programs import NOBODY, ROOT, WINDOW, WINDOWS, Programs, chill, huge_kib, hugealign, running
from tests.live.test_hung import Hung, hung  # noqa: F401 - a fixture
from tests.strace import faulty
from tests.support import advised, need, worded

# An arena of 8 MiB of code, written to, and argv[1] more mappings that are executable, every second one.
_ARENA = """\
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int fd = open("/proc/self/exe", O_RDONLY), count = argc > 1 ? atoi(argv[1]) : 0;
  char *at = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(at, 0xc3, 8 << 20);
  for (int i = 0; i < count; i++) mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
  if (write(1, "ready\\n", 6) == 6) pause();
}
"""


def top(*words: str, prefix: tuple[str, ...] = ()) -> dict[str, Any]:
    done = hugealign("top", "--json", *words, prefix=prefix)
    assert (done.returncode, done.stderr) == (0, "")
    result: dict[str, Any] = check(done.stdout)
    return result


def reported(row: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the code of a row's diagnosis, and the kind of its remedy."""
    result = row["diagnosis"]
    return (result["code"], result["remedy"] and result["remedy"]["kind"]) if result else (None, None)


def rows(result: dict[str, Any], pid: int) -> list[dict[str, Any]]:
    return [row for row in result["rows"] if pid in row["pids"]]


@pytest.fixture
def program(programs: Programs, request: pytest.FixtureRequest) -> Iterator[Path]:
    path = programs.copy(f"top{abs(hash(request.node.name)) % 10**6}")
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def arena(built: Programs) -> Path:
    path = built.directory / "arena"
    subprocess.run(["gcc", "-xc", "-", "-o", path], input=_ARENA, text=True, check=True)
    return path


@pytest.mark.parametrize("count", [0, 1, 3])
def test_numbers_are_those_of_ps_and_smaps(program: Path, count: int) -> None:
    if count:
        assert hugealign("warm", "--windows", str(count), program).returncode == 0
    with running(program, "5") as child:
        (row,) = rows(top(), child.pid)
        assert row["huge_bytes"] == huge_kib(child.pid, program) << 10 == count * WINDOW
        (process,) = json.loads(hugealign("ps", "--json", str(child.pid)).stdout)["processes"]
    for name in ("text_bytes", "windows_huge", "windows_possible"):
        assert row[name] == process[name], name
    assert (row["program"], row["kind"], row["windows_reachable"]) == (str(program), "program", WINDOWS)
    assert reported(row) == ((None, None) if count == WINDOWS else ("cache.small-pages", "start"))
    if count < WINDOWS:
        assert typed(row) == ["hugealign", "run", "--", str(program)]


def test_processes_of_a_program_are_one_row(program: Path) -> None:
    with running(program, "5") as one, running(program, "5") as other:
        (row,) = rows(top(), one.pid)
        assert row["pids"] == sorted((one.pid, other.pid))
        assert row["windows_possible"] == 2 * WINDOWS
    assert not rows(top(), one.pid)


def test_name_that_ends_as_if_it_were_deleted(programs: Programs) -> None:
    path = programs.copy("gone (deleted)")
    try:
        with running(path, "5") as child:
            (row,) = rows(top(), child.pid)
            assert (row["program"], row["part"]) == (str(path), str(path))
            assert typed(row) == ["hugealign", "run", "--", str(path)]
            path.unlink()
            (row,) = rows(top(), child.pid)
            assert row["program"] == str(path)
            assert reported(row) == ("file.replaced", "restart")
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.matrix
def test_code_without_a_file_and_100_000_mappings(arena: Path) -> None:
    limit = Path("/proc/sys/vm/max_map_count")
    before = limit.read_text(encoding="ascii")
    count = 60_000
    if os.geteuid() == 0:
        limit.write_text("150000", encoding="ascii")
        count = 100_000
    try:
        with running(arena, str(count)) as child:
            result = top()
            (code,) = (row for row in rows(result, child.pid) if row["kind"] == "code")
            assert (code["part"], code["text_bytes"]) == ("", 8 << 20)
            assert code["diagnosis"]["code"] == "runtime.small-pages"
            assert code["diagnosis"]["remedy"]["argv"] == ["hugealign", "adapt", str(child.pid)]
    finally:
        if os.geteuid() == 0:
            limit.write_text(before, encoding="ascii")


def test_without_the_ioctls_of_newer_kernels_the_numbers_are_the_same(program: Path) -> None:
    need("strace")
    without = faulty("ioctl", "error=ENOTTY")
    assert hugealign("warm", "--windows", "1", program).returncode == 0
    with running(program, "5") as child:
        (new,), (old,) = (rows(top(prefix=prefix), child.pid) for prefix in ((), without))
    for name in ("program", "part", "text_bytes", "huge_bytes", "windows_huge", "windows_possible"):
        assert old[name] == new[name], name
    assert new["windows_huge"] == 1


def test_processes_that_end_meanwhile_do_not_stop_it(program: Path) -> None:
    loop = f"while :; do timeout -s KILL 0.02 {program} 5 >/dev/null; done"
    with subprocess.Popen(["sh", "-c", loop], stderr=subprocess.DEVNULL, start_new_session=True) as shell:
        try:
            for _ in range(2):
                top()
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


@contextlib.contextmanager
def started(words: Sequence[str | Path]) -> Iterator[subprocess.Popen[bytes]]:
    """Start what was named, as a person types it."""
    with running("env", f"PATH={ROOT / 'bin'}:{os.environ['PATH']}", *words) as child:
        yield child


@pytest.fixture(scope="module")
def stock(built: Programs) -> Iterator[Path]:
    """A directory on btrfs, which keeps no huge folios."""
    work = built.directory / "btrfs"
    work.mkdir()
    with filesystems.mounted("btrfs", work, 1 << 30) as at:
        yield at


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that opens the library of its last argument, beside which nothing else has text."""
    directory = tmp_path_factory.mktemp("loader")
    source = 'void f(void) { __asm__(".skip 6000000, 0x90"); }'
    command = ["gcc", "-shared", "-fPIC", "-xc", "-", "-o", str(directory / "libbig.so")]
    subprocess.run(command, input=source, text=True, check=True)
    source = (
        "#include <dlfcn.h>\n#include <unistd.h>\n"
        'int main(int c, char **v) { volatile char *f = dlsym(dlopen(v[c - 1], 2), "f"); '
        'for (long at = 0; at < 6000000; at += 4096) f[at]; if (write(1, "ready\\n", 6) == 6) pause(); }'
    )
    subprocess.run(["gcc", "-xc", "-", "-o", directory / "loader"], input=source, text=True, check=True)
    return directory / "loader"


def typed(row: dict[str, Any]) -> list[str]:
    """Return the words of the command that the row names, which lacks the program's arguments."""
    remedy = row["diagnosis"]["remedy"]
    assert (remedy["kind"], remedy["needs"], remedy["argv"][:2]) == ("start", "arguments", ["hugealign", "run"])
    return list(remedy["argv"])


@pytest.mark.parametrize("name", ["plain", "fixed", "good"])
def test_the_command_that_is_named_mends_a_program(built: Programs, name: str) -> None:
    """Whether it has no window, or some and a fix gives it more, or all."""
    program = built.directory / f"mended-{name}"
    shutil.copy(built.directory / name, program)
    chill(program)
    try:
        with running(program, "5") as child:
            (row,) = rows(top(), child.pid)
        assert row["windows_reachable"] > (0 if name == "good" else row["windows_possible"])
        with started([*typed(row), "5"]) as child:
            (after,) = rows(top(), child.pid)
        assert (after["windows_huge"], after["diagnosis"]) == (row["windows_reachable"], None)
    finally:
        program.unlink()


#: Code for argv[1] windows, the first argv[2] of them huge; a line on stdin takes the others away.
_MANY = """
import ctypes, mmap, sys
window, count, huge = 2 << 20, *map(int, sys.argv[1:])
code = mmap.mmap(-1, (count + 1) * window - 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
skip = -ctypes.addressof(ctypes.c_char.from_buffer(code)) % window
prctl = ctypes.CDLL(None).prctl
prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE
for at in range(skip, skip + count * window, 4096):
    code[at] = 0xC3
prctl(41, 0, 0, 0, 0)
code.madvise(25, skip, huge * window)  # MADV_COLLAPSE
print("ready", flush=True)
sys.stdin.readline()
code.madvise(mmap.MADV_DONTNEED, skip + huge * window, (count - huge) * window)
print("done", flush=True)
sys.stdin.readline()
"""


def test_more_windows_than_the_processor_keeps_are_not_recommended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it is known that they cost nothing here."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    most = top()["entries"] - 1
    words = [sys.executable, "-c", _MANY, str(most + 4), str(most)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin
        assert child.stdout
        assert child.stdout.readline() == b"ready\n"

        (row,) = (row for row in rows(top(), child.pid) if row["kind"] == "code")
        assert reported(row) == ("runtime.enough", None)
        assert (row["windows_huge"], row["windows_possible"]) == (most, most + 4)
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"done\n"
        (row,) = (row for row in rows(top(), child.pid) if row["kind"] == "code")
        assert reported(row) == ("process.not-touched", None)
        child.kill()


@pytest.mark.parametrize("place", ["one name", "hard links", "btrfs"])
def test_the_command_that_is_named_mends_a_library_that_is_opened_later(
    loader: Path, tmp_path: Path, place: str, request: pytest.FixtureRequest
) -> None:
    """Installers link one file into many environments; some file systems keep no huge pages.  The file stays."""
    directory = request.getfixturevalue("stock") if place == "btrfs" else tmp_path
    library = directory / "lib big.so"
    shutil.copy(loader.with_name("libbig.so"), library)
    chill(library)
    if place == "hard links":
        (tmp_path / "cached").hardlink_to(library)
    before = library.read_bytes()
    with running(loader, library) as child:
        (row,) = rows(top(), child.pid)
        message = hugealign("ps", str(child.pid)).stdout
    words = typed(row)
    assert words == ["hugealign", "run", "--fix", "--file", str(library), "--", str(loader)]
    assert f"{advised('start', *words, needs='arguments')} (" in message
    with started([*words, library]) as child:
        (after,) = rows(top(), child.pid)
        assert "windows are huge" in hugealign("ps", "--all", str(child.pid)).stdout
    assert (after["windows_huge"], after["diagnosis"]) == (row["windows_reachable"], None)
    assert library.read_bytes() == before


def test_windows_that_the_cache_has_small_are_mended_on_a_file_system_without_huge_pages(
    built: Programs, stock: Path
) -> None:
    program = stock / "good"
    shutil.copy(built.good, program)
    with running(program, "5") as child:
        (row,) = rows(top(), child.pid)
        assert advised("start", *typed(row), needs="arguments") in hugealign("ps", str(child.pid)).stdout
    with started([*typed(row), "5"]) as child:
        done = hugealign("ps", str(child.pid))
    assert (done.returncode, "all 3 windows are huge" in done.stdout) == (0, True)


@pytest.mark.parametrize("how", ["path", "relative", "search", "script", "another name", "link replaced"])
def test_program_is_named_as_it_was_started(program: Path, tmp_path: Path, how: str) -> None:
    """The python of a virtual environment is a link, and finds its packages by that name."""
    link = tmp_path / "v" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(program)
    script = tmp_path / "script"
    script.write_text(f"#!{link} 5\n")
    script.chmod(0o755)
    words = {
        "relative": ["env", "-C", str(tmp_path), "v/bin/python", "5"],
        "search": ["env", f"PATH={link.parent}:/usr/bin", "python", "5"],
        "script": [str(script)],
        "another name": ["bash", "-c", f"exec -a /usr/bin/python3 {link} 5"],
    }.get(how, [str(link), "5"])
    chill(program)
    with running(*words) as child:
        if how == "link replaced":
            link.unlink()
            link.symlink_to("/bin/true")
        (row,) = rows(top(), child.pid)
    assert row["program"] == str(program)
    assert typed(row)[-1] == str(program if how == "link replaced" else link)


@contextlib.contextmanager
def in_group(path: str, pid: int) -> Iterator[None]:
    """Put the process into a control group of that name, as systemd or a container's runtime would."""
    tops = [top for top in map(Path, ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd")) if (top / "cgroup.procs").exists()]
    if os.geteuid() or not tops:
        pytest.skip("root and control groups are needed")
    before = [
        line for line in Path("/proc/self/cgroup").read_text().splitlines() if line.split(":")[1][:5] in ("", "name=")
    ]
    group, made = tops[0], []
    for part in path.split("/"):
        group /= part
        if not group.exists():
            try:
                group.mkdir()
            except OSError as error:
                pytest.skip(f"no control group can be made: {error}")
            made.append(group)
    (group / "cgroup.procs").write_text(str(pid))
    try:
        yield
    finally:
        (tops[0] / before[0].split(":", 2)[2].lstrip("/") / "cgroup.procs").write_text(str(pid))
        for group in reversed(made):
            group.rmdir()


def test_service_is_enabled(program: Path) -> None:
    chill(program)
    with running(program, "5") as child, in_group("system.slice/hugealign-test.service", child.pid):
        (row,) = rows(top(), child.pid)
        assert f"{program.name}[{child.pid}]: " in hugealign("ps", "hugealign-test.service").stdout
    assert row["diagnosis"]["remedy"]["argv"] == ["hugealign", "enable", "--now", "hugealign-test"]


def test_names_of_services(program: Path) -> None:
    """As systemctl takes them, without .service; a unit counts before a client that has its name, as mariadb's does."""

    def shown(name: str) -> set[int]:
        return {item["pid"] for item in json.loads(hugealign("ps", "--json", name).stdout)["processes"]}

    client = program.with_name("ha-unit")
    shutil.copy(program, client)
    with running(program, "5") as server, running(client, "5") as other:
        assert shown("ha-unit") == {other.pid}
        with in_group("system.slice/system-ha.slice/ha@15-main.service", server.pid):
            assert shown("ha@15-main") == shown("ha@15-main.service") == {server.pid}
            # What is only a template, or only groups its instances, names one that runs.
            assert hugealign("ps", "ha@").stderr.endswith("name an instance: ha@15-main\n")
            wanted = f"ha.service: {worded('service.no-process', near='ha@15-main')}\n"
            assert hugealign("ps", "ha.service").stderr.endswith(wanted)
        with in_group("system.slice/ha-unit.service", server.pid):
            assert shown("ha-unit") == {server.pid}
            others = f"1 process of this name outside the service; for these: hugealign ps {other.pid}"
            assert hugealign("ps", "ha-unit").stderr == f"hugealign: ps: ha-unit: {others}\n"
            assert hugealign("ps", "ha-unit.service").stderr == ""
            # What enable is given by mistake has a service all the same.
            assert "did you mean ha-unit.service?" in hugealign("enable", "--dry-run", str(server.pid)).stderr
            assert "did you mean ha-unit.service?" in hugealign("enable", "--dry-run", program.name).stderr
            assert "did you mean ha-unit.service?" in hugealign("disable", str(server.pid)).stderr
        wanted = f"for the process with that number: hugealign ps {other.pid}"
        assert wanted in hugealign("enable", "--dry-run", str(other.pid)).stderr
        assert "hugealign run -- ha-unit [ARG]..." in hugealign("enable", "--dry-run", "ha-unit").stderr
        with in_group("system.slice/ha-unit.service", other.pid):
            assert shown("ha-unit") == {other.pid}
        # So is a helper, which does not count: a script's shell has no window to gain.
        group = "system.slice/ha-unit.service"
        with subprocess.Popen(["/bin/sleep", "5"]) as helper:
            with in_group(group, server.pid), in_group(group, helper.pid):
                assert shown("ha-unit") == {server.pid}
                line = f"not counted: 1 process of the service with less than 2.0 MiB of text ({helper.pid})\n"
                assert line in hugealign("ps", "ha-unit").stdout
                assert json.loads(hugealign("ps", "--json", "ha-unit").stdout)["not_counted"] == [helper.pid]
                assert shown(str(helper.pid)) == {helper.pid}
            helper.kill()
        # A helper of another name is part of the service, too, with and without the suffix.
        both = "system.slice/ha-unit.service"
        with in_group(both, server.pid), in_group(both, other.pid):
            assert shown("ha-unit") == shown("ha-unit.service") == {server.pid, other.pid}


def test_containers_are_told_apart(program: Path) -> None:
    name = "0123456789abcdef" * 4
    with running(program, "5") as ours, running(program, "5") as theirs, in_group(f"docker/{name}", theirs.pid):
        assert len(rows(top(), ours.pid)[0]["pids"]) == 2
        result = top("--containers")
        assert [row["container"] for row in rows(result, theirs.pid)] == [name[:12]]
        assert [row["container"] for row in rows(result, ours.pid)] == [None]
        assert name[:12] in hugealign("top", "--containers").stdout


def test_kernel_threads_and_ourselves_are_no_rows() -> None:
    result = top()
    assert not rows(result, 2)
    assert result["others"] > 0


def test_ordinary_user_is_told_what_is_missing(program: Path) -> None:
    if os.geteuid() or subprocess.run([*NOBODY, sys.executable, "-c", "import argparse"], check=False).returncode:
        pytest.skip("not root, or this Python does not run as nobody")
    with running(program, "5") as ours, running(*NOBODY, program, "5") as theirs:
        result = top(prefix=NOBODY)
        assert result["hidden"] > 0
        assert not rows(result, ours.pid)
        assert rows(result, theirs.pid)
        done = hugealign("top", prefix=NOBODY)
    assert " skipped: no permission" in done.stdout
    assert "root sees more" in done.stdout


def test_hung_file_is_not_waited_for(hung: Hung) -> None:  # noqa: F811
    result = top()
    for row in rows(result, hung[1].pid):
        if row["kind"] == "program":
            assert reported(row) == ("file.out-of-reach", None)


def test_hostile_names_reach_neither_terminal_nor_metrics(programs: Programs) -> None:
    path = programs.copy('x\x1b]0;"{}\\\r\n#y')
    with running(path, "5") as child:
        for words in ((), ("--format", "prometheus"), ("--json",), ("--containers",)):
            done = hugealign("top", *words)
            assert done.returncode == 0
            assert not {c for c in done.stdout if ord(c) < 32} - {"\n"}
            assert not any(line.startswith("#y") for line in done.stdout.splitlines())
        (row,) = rows(top(), child.pid)
    path.unlink()
    assert row["program"].endswith('/x\\x1b]0;"{}\\\\r\\n#y')


def test_metrics_pass_promtool(program: Path) -> None:
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("no promtool: apt-get install prometheus")
    with running(program, "5"):
        done = hugealign("top", "--format", "prometheus", "--containers")
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=done.stdout, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_alert_fires_when_text_that_was_huge_is_no_longer(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("no promtool: apt-get install prometheus")
    rules = ROOT / "examples" / "prometheus" / "hugealign.rules.yml"
    for words in (["check", "rules", str(rules)], ["test", "rules", str(rules.with_name("hugealign.test.yml"))]):
        subprocess.run([promtool, *words], check=True, cwd=tmp_path, stdout=subprocess.DEVNULL)


def test_file_is_written_whole(program: Path, tmp_path: Path) -> None:
    with running(program, "5"):
        assert hugealign("top", "--format", "prometheus", "-o", str(tmp_path / "x.prom")).stdout == ""
    assert str(program) in (tmp_path / "x.prom").read_text(encoding="utf-8")
    assert os.listdir(tmp_path) == ["x.prom"]


def test_watch_has_a_time_for_each_look(program: Path) -> None:
    words = [sys.executable, "-m", "hugealign", "top", "--watch", "0.1"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with running(program, "5"), subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout
        times: list[str] = []
        while len(times) < 2:
            line = process.stdout.readline()
            if re.match(r"\d{4}-\d\d-\d\dT", line):
                times.append(line.split()[0])
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert all(len(one) == len("2026-11-23T10:00:00+0000") for one in times)


def test_json_of_a_watch_is_a_line_each() -> None:
    words = [sys.executable, "-m", "hugealign", "top", "--watch", "0.1", "--json"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as process:
        assert process.stdout
        for number in range(2):
            result = check(process.stdout.readline())
            assert bool(result["interval"]) == bool(number)
        process.kill()


def test_terminal_is_drawn_again() -> None:
    controller, terminal = pty.openpty()
    words = [sys.executable, "-m", "hugealign", "top", "--watch", "0.1"]
    with subprocess.Popen(
        words, stdout=terminal, stderr=terminal, env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    ) as process:
        os.close(terminal)
        seen = b""
        while seen.count(b"\x1b[H") < 2:
            assert select.select([controller], [], [], 20)[0]
            seen += os.read(controller, 4096)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    os.close(controller)
    assert b"PROCS" in seen
    first = seen.partition(b"\x1b[?7h")[0]  # no line wraps, however wide the characters of a name are
    assert first.startswith(b"\x1b[?7l\x1b[H")
    assert first.endswith(b"\x1b[J")


def test_api(program: Path) -> None:
    chill(program)
    with running(program, "5") as child:
        result = api.top(api.TopOptions(seconds=0.05))
    (row,) = (row for row in result.rows if child.pid in row.pids)
    assert (row.windows_huge, row.windows_possible) == (0, WINDOWS)
    assert 0.05 <= result.interval < 10


@pytest.mark.parametrize(
    "words",
    [
        ["1"],
        ["--seconds", "1", "--watch", "1"],
        ["--watch", "0"],
        ["--seconds", "0"],
        ["--watch", "1", "--json", "-o", "/tmp/x"],
    ],
)
def test_usage(words: list[str]) -> None:
    assert hugealign("top", *words).returncode == 2
