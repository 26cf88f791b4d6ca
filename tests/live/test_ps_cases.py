"""``hugealign ps`` in time (--wait, --watch), and of processes that are hard to look at."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hugealign.io import mounts
from hugealign.process import naming, processes
from tests.live.programs import NOBODY, ROOT, WINDOWS, Programs, chill, hugealign, running
from tests.support import advised, worded

PS = (sys.executable, "-m", "hugealign", "ps")


@contextlib.contextmanager
def started(*words: str | Path, **settings: Any) -> Iterator[subprocess.Popen[str]]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | settings
    with subprocess.Popen([*PS, *words], env=env, **settings) as ps:
        try:
            yield ps
        finally:
            ps.kill()


def compiled(directory: Path, name: str, source: str, *words: str) -> Path:
    (directory / f"{name}.c").write_text(source, encoding="ascii")
    subprocess.run(["gcc", "-o", directory / name, directory / f"{name}.c", *words], check=True)
    return directory / name


# --wait


def test_wait_ends_as_soon_as_it_is_met(warmed: Path) -> None:
    with started("--wait", "1000", warmed.name) as ps:
        time.sleep(0.5)
        assert ps.poll() is None  # no process of that name yet
        with running(warmed, "5"):
            out, err = ps.communicate()
    assert (ps.returncode, err) == (0, "")
    assert "all 3 windows are huge\n" in out


def test_wait_gives_up_in_time(warmed: Path) -> None:
    chill(warmed)
    with running(warmed, "5") as child:
        done = hugealign("ps", "--wait", "0.5", str(child.pid))
    assert done.returncode == 1
    assert "0 of 3 windows are huge\n" in done.stdout


def test_wait_does_not_wait_for_what_time_does_not_mend() -> None:
    assert hugealign("ps", "--wait", "1000", "4194304999").returncode == 3


# --watch


def test_watch_appends_until_the_process_ends(warmed: Path) -> None:
    with running(warmed, "5") as child, started("--watch", "0.1", str(child.pid)) as ps:
        assert ps.stdout
        for line in ps.stdout:
            if not line.strip():  # the second look begins
                child.kill()
                child.wait()
                break
        rest = ps.stdout.read()
        ps.wait()
    assert ps.returncode == 0  # the last look's
    assert f"{warmed.name}[{child.pid}]: all 3 windows are huge\n" in rest
    assert "\x1b" not in rest


def test_watch_ends_the_command_when_interrupted(warmed: Path) -> None:
    with started("--watch", "0.1", "--", warmed, "5", start_new_session=True) as ps:
        assert ps.stdout
        while "windows are huge" not in ps.stdout.readline():
            pass
        os.killpg(ps.pid, signal.SIGINT)
        assert ps.wait() == 130
    assert subprocess.run(["pgrep", "-x", warmed.name], check=False, stdout=subprocess.DEVNULL).returncode == 1


def test_watch_ends_when_its_reader_has_gone(warmed: Path) -> None:
    with running(warmed, "5") as child, started("--watch", "0.05", str(child.pid)) as ps:
        assert ps.stdout
        assert ps.stderr
        ps.stdout.readline()
        ps.stdout.close()
        assert ps.wait() == 141
        assert ps.stderr.read() == ""


def test_watch_in_json_is_a_line_for_each_look(warmed: Path) -> None:
    done = hugealign("ps", "--json", "--watch", "0.1", "--", "timeout", "1", "sleep", "9")
    lines = done.stdout.splitlines()
    assert len(lines) > 1
    assert {json.loads(line)["schema"] for line in lines} == {"hugealign.ps/1"}
    assert warmed.exists()


def test_number_that_another_process_got_is_not_watched_on(monkeypatch: pytest.MonkeyPatch) -> None:

    from hugealign.watch import ps

    real = processes.read(os.getpid())
    looks = iter([real, real, real.changed(started=real.started + 1), real])
    monkeypatch.setattr(processes, "read", lambda *_: next(looks))
    monkeypatch.setattr(naming, "find", lambda target: [int(target)])
    assert len(list(ps.watch([str(os.getpid())], 0))) == 2


# hard cases


def test_other_mount_namespace(warmed: Path, tmp_path: Path) -> None:
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*words, "true"], check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no namespaces here: unshare fails")
    inside = tmp_path / "inside"
    inside.mkdir()
    script = f"mount --bind {warmed.parent} {inside} && exec {inside}/{warmed.name} 5"
    chill(warmed)
    with running(*words, "sh", "-c", script):
        (pid,) = naming.find(warmed.name)
        seen = processes.read(pid)
        done = hugealign("ps", warmed.name)
    assert (seen.elsewhere, seen.exe) == (True, f"{inside}/{warmed.name}")
    assert seen.inner_pids[-1] < seen.pid  # the first processes of a namespace of its own
    assert done.stdout.splitlines()[-2:] == [
        f"  {worded('cache.small-pages')}",
        f"  {advised('start-inside', 'hugealign', 'run', '--', warmed.name, needs='arguments', before=0, after=3)}",
    ]
    assert f"{warmed.name}[{pid}]: " in done.stdout


def test_first_thread_has_ended_and_others_run(programs: Programs) -> None:
    source = """\
#include <pthread.h>
#include <unistd.h>
static void *other(void *unused) { sleep(1); if (write(1, "ready\\n", 6) == 6) pause(); return unused; }
int main(void) { pthread_t thread; pthread_create(&thread, 0, other, 0); pthread_exit(0); }
"""
    path = compiled(programs.directory, "threads", source, "-pthread")
    with running(path) as child:
        assert "zombie" in Path(f"/proc/{child.pid}/status").read_text(encoding="ascii")
        seen = processes.read(child.pid)
    assert (seen.pid, seen.comm, seen.exe) == (child.pid, "threads", str(path))
    assert seen.text()


@pytest.fixture
def ended(programs: Programs) -> Iterator[subprocess.Popen[bytes]]:
    """A program with large text that runs on without its first thread."""
    source = """\
#include <pthread.h>
#include <unistd.h>
extern const volatile char walk[] __attribute__((visibility("hidden")));
static void *other(void *unused) {
  for (int round = 0; ; round++) {
    for (long at = 0; at < 5 << 20; at += 4096) (void)walk[at];
    if (round == 1000 && write(1, "ready\\n", 6) != 6) return unused;
  }
}
int main(void) { pthread_t thread; pthread_create(&thread, 0, other, 0); pthread_exit(0); }
"""
    place = programs.directory
    (place / "ended.c").write_text(source, encoding="ascii")
    command = "gcc -fuse-ld=bfd -pthread -o ended ended.c text.o pad.o -Wl,-T,pad.ld -Wl,-z,max-page-size=0x200000"
    subprocess.run([*command.split(), "-Wl,-z,separate-code"], cwd=place, check=True)
    chill(place / "ended")
    with running(place / "ended") as child:
        assert "zombie" in Path(f"/proc/{child.pid}/status").read_text(encoding="ascii")
        yield child


def test_all_see_a_program_whose_first_thread_has_ended(ended: subprocess.Popen[bytes], programs: Programs) -> None:
    path, pid = programs.directory / "ended", str(ended.pid)
    assert "/proc" in [mounts.text(mount.place) for mount in mounts.seen(ended.pid)]
    (row,) = (row for row in json.loads(hugealign("top", "--json").stdout)["rows"] if ended.pid in row["pids"])
    assert (row["program"], row["windows_possible"]) == (str(path), WINDOWS)
    advice = hugealign("advise", "--seconds", "0.3", pid)
    assert f"ended[{pid}]: " in advice.stdout, advice.stderr
    done = hugealign("warm", path)
    if done.returncode:
        assert f"{worded('cache.in-use', process=pid, name='ended')}" in done.stdout
    if os.geteuid() == 0:
        adapted = hugealign("adapt", "--windows", "2", "--seconds", "0.3", pid)
        expected = f"hugealign: error: {pid}: {worded('process.first-thread-ended')}\n"
        assert (adapted.returncode, adapted.stderr) == (3, expected)


def test_5000_mappings(programs: Programs) -> None:
    path = compiled(programs.directory, "mappings", (ROOT / "lab/bench/costs/mappings.c").read_text(encoding="ascii"))
    with running(path, "5000") as child:
        assert len(Path(f"/proc/{child.pid}/maps").read_text(encoding="utf-8").splitlines()) > 5000
        result = json.loads(hugealign("ps", "--json", str(child.pid)).stdout)
    (process,) = result["processes"]
    assert len(process["mappings"]) == 2501  # its own text, and every second mapping


def test_program_that_changes_by_exec_all_the_time(programs: Programs) -> None:
    # Each look is of one program: the text of one is never shown with the name of the other.
    source = f"""\
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {{
  static char count[16];
  int left = atoi(argv[1]);
  if (!left) return 0;
  char *names[] = {{"{programs.directory}/flip", "{programs.directory}/flop"}};
  count[0] = '0' + left / 1000 % 10; count[1] = '0' + left / 100 % 10;
  count[2] = '0' + left / 10 % 10; count[3] = '0' + left % 10;
  for (int i = 3; i >= 0 && count[i]-- == '0'; i--) count[i] = '9';
  usleep(20000);
  execl(names[left & 1], names[left & 1], count, (char *)0);
  return 1;
}}
"""
    flip = compiled(programs.directory, "flip", source)
    compiled(programs.directory, "flop", source)
    looks = 0
    with subprocess.Popen([flip, "0060"]) as child:
        while child.poll() is None:
            with contextlib.suppress(processes.GoneError):
                seen = processes.read(child.pid)
                paths = [
                    m.path for m in seen.text()
                ]  # none while the kernel is between begin_new_exec() and elf_load()
                assert paths in ([], [seen.exe])
                looks += len(paths)
        assert child.returncode == 0
    assert looks > 10


@pytest.mark.parametrize("name", ["ends (deleted)", "two\nlines", "a (b) c", "$(x) 'y'"])
def test_names(programs: Programs, name: str) -> None:
    path = programs.copy(name)
    chill(path)
    with running(path, "5") as child:
        seen = processes.read(child.pid)
        (text,) = seen.text()
        assert (seen.exe, seen.elsewhere, text.path, text.deleted) == (str(path), False, str(path), False)
        path.unlink()
        seen = processes.read(child.pid)
        (text,) = seen.text()
    assert (seen.exe, text.path, text.deleted) == (str(path), str(path), True)


def test_by_name_those_that_can_be_looked_at_are_shown(warmed: Path) -> None:
    if os.geteuid() or subprocess.run([*NOBODY, sys.executable, "-c", "import argparse"], check=False).returncode:
        pytest.skip("not root, or this Python does not run as nobody")
    with running(warmed, "5") as ours, running(*NOBODY, warmed, "5") as theirs:
        done = hugealign("ps", warmed.name, prefix=NOBODY)
    assert done.returncode == 3
    assert f"[{theirs.pid}]: all {WINDOWS} windows are huge\n" in done.stdout
    expected = worded("process.forbidden", capability="CAP_SYS_PTRACE")
    assert done.stderr.startswith(f"hugealign: error: {ours.pid}: {expected}; ")


def test_by_name_those_that_have_ended_are_left_out(warmed: Path) -> None:
    with running(warmed, "5") as one, running(warmed, "5") as other:
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        done = hugealign("ps", warmed.name)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"[{one.pid}]: all" in done.stdout


ASKS_FOR_SMALL = """
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int main(void) {
  char *at = mmap((void *)0x200000000000, 64 << 20, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  madvise(at, 64 << 20, MADV_NOHUGEPAGE);
  memcpy(at, "\\xb8\\x07\\0\\0\\0\\xc3", 6);
  puts("ready"); fflush(stdout);
  for (;;) ((int (*)(void))at)();
}
"""


def test_plain_ps_says_of_other_code_what_all_says(programs: Programs) -> None:
    """Code without a file and a library: the same reason, whether the report is about them or names them also."""
    asks = compiled(programs.directory, "asks", ASKS_FOR_SMALL)
    with running(asks) as child:
        (seen,) = json.loads(hugealign("ps", "--json", str(child.pid)).stdout)["processes"]
    (other,) = seen["others"]
    assert [item["code"] for item in other["diagnoses"]] == ["program.small-pages"]
    text, library = "text.s", programs.directory / "libtext.so"
    source = '#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts("ready"); fflush(stdout); pause(); }\n'
    words = ("-Wl,-z,max-page-size=0x200000", "-Wl,-z,separate-code", "-Wl,-z,noexecstack")
    subprocess.run(["gcc", "-shared", text, "-o", library, *words], cwd=programs.directory, check=True)
    chill(library)
    linked = compiled(
        programs.directory, "loads", source, "-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{programs.directory}"
    )
    with running(linked) as child:
        (seen,) = json.loads(hugealign("ps", "--json", str(child.pid)).stdout)["processes"]
        (every,) = json.loads(hugealign("ps", "--all", "--json", str(child.pid)).stdout)["processes"]
    (other,) = seen["others"]
    codes = {item["code"] for item in other["diagnoses"]}
    assert (
        codes
        == {"cache.small-pages"}
        == {item["code"] for item in every["diagnoses"] if item["subject"] == str(library)}
    )


def test_a_program_behind_a_wrapper_is_started_by_the_wrapper(programs: Programs) -> None:
    """A script sets a variable and executes the program, as R's does: what ps says can be typed, and helps."""
    inner, wrapper = programs.copy("inner"), programs.directory / "wrapper"
    wrapper.write_text(f'#!/bin/sh\nHOME_OF_IT=yes\nexport HOME_OF_IT\nexec {inner} "$@"\n')
    wrapper.chmod(0o755)
    with running("bash", "-c", f"cd {programs.directory}; ./wrapper 5; :") as shell:
        (pid,) = Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()
        try:
            (seen,) = json.loads(hugealign("ps", "--json", pid).stdout)["processes"]
        finally:
            os.kill(int(pid), signal.SIGKILL)
    argv = seen["diagnoses"][0]["remedy"]["argv"]
    assert argv == ["hugealign", "run", "--file", str(inner), "--", str(wrapper)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "hugealign", *argv[1:], "5"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=env) as child:
        assert child.stdout
        assert child.stdout.readline() == b"ready\n"
        again = hugealign("ps", str(child.pid))
        child.kill()
    assert (again.returncode, f"all {WINDOWS} windows are huge" in again.stdout) == (0, True)
