"""``hugealign run -- COMMAND``: warmed, and otherwise as if it had been started without us."""

import itertools
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hugealign.diagnosis.values import COMMAND
from hugealign.elf.coverage import text_size
from hugealign.elf.image import read_file
from hugealign.pagecache import measure
from tests.live.programs import NO_THP, NOBODY, WINDOW, WINDOWS, Programs, chill, huge_kib, hugealign
from tests.support import HUGEALIGN, ROOT, advised, environment, need, worded

ALL = WINDOWS * WINDOW >> 10


def hugealign_run(*words: str | Path, **settings: Any) -> subprocess.CompletedProcess[str]:
    settings.setdefault("env", environment())
    command = [str(word) for word in (HUGEALIGN, "run", *words)]
    return subprocess.run(command, check=False, capture_output=True, text=True, **settings)


@pytest.mark.parametrize("how", ["path", "search", "script", "env"])
def test_text_is_huge_in_the_command(programs: Programs, tmp_path: Path, how: str) -> None:
    good = programs.copy(f"run-{how}")
    words: list[str | Path] = [good, "5"]
    path = environment()["PATH"]
    if how == "search":
        words[0], path = good.name, f"/nonexistent:{good.parent}:{path}"
    elif how in ("script", "env"):
        script = tmp_path / "script"
        # The kernel hands the script's name on: "5" is what atol finds no number in, so the first argument is it.
        script.write_text(f"#!{good} 5\n" if how == "script" else f"#!/usr/bin/env -S {good} 5\n")
        script.chmod(0o755)
        words = [script]
    with subprocess.Popen(
        [HUGEALIGN, "run", "--", *words], stdout=subprocess.PIPE, env=environment(PATH=path)
    ) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == b"ready\n"
            assert huge_kib(child.pid, good) == ALL
        finally:
            child.kill()


@pytest.mark.parametrize("how", ["auto", "copy"])
def test_no_huge_page_is_claimed_where_the_command_gets_none(programs: Programs, how: str) -> None:
    """Its parent has switched huge pages off, for itself and all that it starts."""
    good = programs.copy(f"disabled-{how}")
    words: list[str | Path] = [*NO_THP, HUGEALIGN, "run", f"--how={how}", "--", good, "5"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as child:
        assert child.stdout
        assert child.stderr
        assert child.stdout.readline() == b"ready\n"
        assert re.search("(FilePmdMapped|ShmemPmdMapped): +[1-9]", Path(f"/proc/{child.pid}/smaps").read_text()) is None
        child.kill()
        assert f"0 of {WINDOWS} windows huge: {worded('process.thp-disabled')}" in child.stderr.read().decode()


_ADVISE = ("hugealign", "advise", "--")
_OPENED = ".globl f\nf: .rept 10240\n.fill 4095, 1, 0x90\nret\n.endr\n" + '.section .note.GNU-stack,"",@progbits\n'
_OPENING = """
#include <dlfcn.h>
#include <time.h>
int main(int count, char **words) {
  for (char *f = dlsym(dlopen(words[count - 1], RTLD_NOW), "f"); clock() < 1.3 * CLOCKS_PER_SEC;)
    for (long at = 0; at < 40 << 20; at += 4096) ((void (*)(void))(f + at))();
}
"""


@pytest.mark.matrix
def test_a_library_that_a_small_program_opens(tmp_path: Path) -> None:
    """The first line names `advise`, `advise` names the library, and what it recommends runs without that line."""
    (tmp_path / "f.s").write_text(_OPENED)
    (tmp_path / "main.c").write_text(_OPENING)
    library, program = tmp_path / "f.so", tmp_path / "program"
    subprocess.run(["gcc", "-shared", tmp_path / "f.s", "-o", library], check=True)
    subprocess.run(["gcc", tmp_path / "main.c", "-o", program], check=True)
    chill(library)  # a file system can keep a new file in huge pages
    done = hugealign_run("--store", tmp_path / "none", "--", program, library)
    output, remedy = (
        worded("program.small", text=text_size(read_file(program))),
        advised("name-files", *_ADVISE, needs=COMMAND),
    )
    assert done.stderr == f"hugealign: {program}: {output}; {remedy}\n"
    result = json.loads(hugealign("advise", "--json", "--", program, library).stdout)
    argv = result["diagnosis"]["remedy"]["argv"]
    assert argv[argv.index("--file") + 1] == str(library)
    done = hugealign(*argv[1:])
    assert (done.returncode in (0, 1), done.stderr) == (True, "")  # `measure`: whether it is faster


def test_environment_name_and_status_are_the_commands_own(tmp_path: Path) -> None:
    script = (
        "import os, sys; print(sorted(os.environb.items())); print(open('/proc/self/cmdline').read()); sys.exit(41)"
    )
    words = [sys.executable, "-c", script, "-v", "--", "--libs", ""]
    # dash drops the names that are not its own, and sets others: containers pass settings as `discovery.type`.
    theirs = {"discovery.type": "single-node", "BASH_FUNC_f%%": "() { :; }", "IFS": "x", "OPTIND": "7", "PWD": "/no"}
    environ = {"A": "1", "LC_ALL": "C", "PATH": "/bin", "B": "\n\udcff", **theirs}
    plain = subprocess.run(words, check=False, capture_output=True, text=True, env=environ, cwd=tmp_path)
    ours = hugealign_run("--", *words, env=environ, cwd=tmp_path)
    assert (ours.returncode, ours.stderr.count("\n")) == (41, 1)
    run = advised("run", "hugealign", "run", "--fix", "--", needs="command")
    assert f"{worded('text.no-window', page_size=2 << 20)}; {run} (0 -> " in ours.stderr
    assert ours.stdout == plain.stdout
    assert hugealign_run(sys.executable, "-c", "print(5)").stdout == "5\n"
    assert hugealign_run("-v", "--libs", "--", sys.executable, "-c", "print(5)").stdout == "5\n"


def test_limits_signals_and_descriptors_are_as_given() -> None:
    # No Python: it would ignore SIGPIPE by itself.
    scripts = ["ls /proc/self/fd; ulimit -n", "exec grep -E '^(Sig[BCIP]|ShdPnd|THP_)' /proc/self/status"]
    # systemd starts services with SIGPIPE ignored.
    ignoring = ["sh", "-c", "trap '' PIPE XFSZ USR1; exec \"$@\"", "sh"]
    blocking = "import os, signal, sys; signal.pthread_sigmask(0, [17]); os.execvp(sys.argv[1], sys.argv[1:])"
    prefixes: list[Any] = [(), NO_THP, ignoring, (sys.executable, "-c", blocking)]
    for prefix, script in itertools.product(prefixes, scripts):
        plain, ours = (
            subprocess.run([*prefix, *front, "sh", "-c", script], check=True, capture_output=True, text=True).stdout
            for front in ((), (HUGEALIGN, "run", "--"))
        )
        assert ours == plain


@pytest.mark.parametrize("command", ["build", "run", "ps"])
def test_libraries_that_python_cannot_load_prevent_nothing(command: str, tmp_path: Path) -> None:
    """A program brings libraries of its own in LD_LIBRARY_PATH, of the same names as Python's but others."""
    (tmp_path / "none.c").write_text("int none;\n")
    needed = subprocess.run(["ldd", "/usr/bin/python3"], check=True, capture_output=True, text=True).stdout
    names = set(re.findall(r"^\s(lib(?!c\.|pthread|dl|m\.)\S+) =>", needed, re.MULTILINE))
    assert names
    for name in names:
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / name, tmp_path / "none.c"], check=True)
    environ = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    assert subprocess.run(["/usr/bin/python3", "-c", ""], check=False, capture_output=True, env=environ).returncode
    words = [str(HUGEALIGN), command, "--", "sh", "-c", "echo $LD_LIBRARY_PATH; sleep 0.1"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=environ)
    assert done.stdout.startswith(f"{tmp_path}\n"), done.stderr


def test_environment_is_not_another_process_s() -> None:
    """In a new PID namespace with the /proc of the old one, our number is that of a process outside."""
    if os.geteuid():
        pytest.skip("root is needed for a PID namespace")
    with subprocess.Popen(["sleep", "30"], env={"PATH": "/usr/bin:/bin", "a.b": "theirs"}) as theirs:
        script = f"echo {theirs.pid - 1} >/proc/sys/kernel/ns_last_pid; '{HUGEALIGN}' run -- sh -c 'echo $PPID; env'; :"
        words = ["unshare", "-fp", "/usr/bin/python3", "-c", f"import os; os.system({script!r})"]
        done = subprocess.run(
            words, env={"PATH": "/usr/bin:/bin", "MINE": "1"}, capture_output=True, text=True, check=True
        )
        theirs.kill()
    assert "MINE=1\n" in done.stdout
    assert "theirs" not in done.stdout


def test_arguments_may_take_all_the_room(tmp_path: Path) -> None:
    """What the launcher tells Python has no room beside them: the command runs all the same."""
    words = ["sh", "-c", "echo ran", "a" * 90000, "b" * 60000]
    limits: list[Any] = ["prlimit", f"--stack={1 << 20}", "env", "-C", tmp_path]
    for name, command in itertools.product(("PLAIN", "a.b"), ((), (HUGEALIGN, "run", "--"))):
        environ = {"PATH": "/usr/bin:/bin", name: "x" * 90000}
        done = subprocess.run([*limits, *command, *words], env=environ, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr


@pytest.mark.parametrize("command", ["build", "run", "trace", "ps", "advise"])
def test_ignored_signals_stay_ignored(command: str, tmp_path: Path) -> None:
    words = [HUGEALIGN, command, *(() if command in {"build", "run"} else ("-o", tmp_path / "output"))]
    if command == "trace" and subprocess.run([*words, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no QEMU with plugins")
    for ignoring, output in (("trap '' PIPE; ", "alive\n"), ("", "")):
        inner = ["sh", "-c", "kill -PIPE $$; echo alive; sleep 0.1"]
        outer = ["sh", "-c", f'{ignoring}exec "$@"', "sh"]
        done = subprocess.run([*outer, *words, "--", *inner], check=False, capture_output=True, text=True)
        assert done.stdout == output, done.stderr


@pytest.mark.parametrize("command", ["build", "run", "trace", "ps", "advise"])
def test_descriptors_are_handed_on(command: str, tmp_path: Path) -> None:
    """A build passes two of them to each make: those of its jobserver."""
    words = [HUGEALIGN, command, *(() if command in {"build", "run"} else ("-o", tmp_path / "output"))]
    if command == "trace" and subprocess.run([*words, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no QEMU with plugins")
    outer: list[Any] = ["sh", "-c", 'exec "$@" 9>"$0"', tmp_path / "said"]
    inner = ["sh", "-c", "echo hello >&9; sleep 0.1"]
    done = subprocess.run([*outer, *words, "--", *inner], check=False, capture_output=True, text=True)
    assert (tmp_path / "said").read_text() == "hello\n", done.stderr


@pytest.mark.parametrize("command", ["ps", "advise"])
def test_script_without_an_interpreter_is_run_by_a_shell(command: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo hello $1; sleep 0.2\n")
    script.chmod(0o755)
    words: list[Any] = [HUGEALIGN, command, "-o", tmp_path / "output", "--", script, "you"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.stdout == "hello you\n", done.stderr


def test_machine_code_for_another_processor_is_not_run_by_a_shell(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    data = Path("/bin/true").read_bytes()
    foreign.write_bytes(data[:18] + b"\xff\xff" + data[20:])  # e_machine
    foreign.chmod(0o755)
    done = hugealign_run("--", foreign)
    last = f"hugealign: error: {foreign}: not executable: Exec format error"
    assert (done.returncode, done.stdout, done.stderr.splitlines()[-1]) == (126, "", last)


def test_command_that_cannot_run(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("echo hello $1\n")
    cases = (
        (("--", "no-such-command"), 127, "command not found"),
        (("--", tmp_path / "missing"), 127, "command not found"),
        (("--", plain / "x"), 127, "command not found"),
        (("--", plain), 126, "not executable"),
        (("--", tmp_path), 126, "is a directory"),
        ((), 2, "no command"),
        (("--",), 2, "no command"),
    )
    for words, status, message in cases:
        done = hugealign_run(*words)
        assert (done.returncode, done.stderr.count("\n")) == (status, 1)
        assert message in done.stderr
    plain.chmod(0o755)
    assert hugealign_run("--", plain, "you").stdout == "hello you\n"  # without #!: a shell runs it, as for execvp
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "plain").symlink_to("/bin/false")
    path = f"{tmp_path}:{tmp_path / 'later'}:{os.environ['PATH']}"
    assert hugealign_run("--", "plain", "you", env={"PATH": path}).stdout == "hello you\n"


def test_interpreter_that_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o755)
    script = tmp_path / "script"
    script.write_text(f"#!{tmp_path}/fifo\n")
    script.chmod(0o755)
    done = hugealign_run("-v", "--", script)
    assert done.returncode == 126
    assert worded("file.special") in done.stderr


def test_failure_to_warm_prevents_nothing(built: Programs, tmp_path: Path) -> None:
    denied = built.copy("denied")
    denied.chmod(0o111)
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\necho hello\n")
    script.chmod(0o755)
    nobody = NOBODY if os.geteuid() == 0 else ()
    for words in (("cat", "/dev/null"), ("true",)):
        assert hugealign_run(*words).returncode == 0
    if nobody and subprocess.run([*nobody, "test", "-x", HUGEALIGN], check=False).returncode:
        pytest.skip(f"nobody cannot reach {HUGEALIGN}")
    done = subprocess.run([*nobody, HUGEALIGN, "run", "-v", "--", denied], check=False, capture_output=True, text=True)
    assert done.returncode == 0
    assert worded("file.unreadable", error="EACCES") in done.stderr
    # A limit that is too small for our Python, but not for the command.
    done = hugealign_run("--", script, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (0, 0)))
    assert done.stdout == "hello\n"


def test_interrupt_while_warming_is_the_end(tmp_path: Path) -> None:
    code = f"""
import os, signal, sys, time
from hugealign import cli
from hugealign.run import launch
def slow(*_):
    open({str(tmp_path / "started")!r}, "w").close()
    time.sleep(60)
launch.binary = slow
sys.exit(cli.main(["run", "--", "echo", "started all the same"]))
"""
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, start_new_session=True, stdout=subprocess.PIPE, cwd=ROOT) as child:
        while not (tmp_path / "started").exists():
            time.sleep(0.01)
        os.killpg(child.pid, signal.SIGINT)
        assert child.communicate()[0] == b""
        assert child.returncode == 130


def test_interrupt_afterwards_is_the_commands_own() -> None:
    with subprocess.Popen([HUGEALIGN, "run", "--", "sleep", "60"], start_new_session=True) as child:
        while Path(f"/proc/{child.pid}/comm").read_text() != "sleep\n":
            time.sleep(0.01)
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait() == -signal.SIGINT


def test_a_core_of_a_fixed_copy_is_read_with_the_same_file(programs: Programs, tmp_path: Path) -> None:
    """As docs/guides/debuggers.md says: the file at the path of the process has other addresses."""
    need("gdb")
    plain, core, again = programs.directory / "to-dump", tmp_path / "core", tmp_path / "again"
    shutil.copy(programs.plain, plain)
    command: list[str | Path] = [HUGEALIGN, "run", "--how=stage", "--fix", "--", plain, "5"]
    gdb = ("gdb", "-q", "-nx", "-batch")
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == b"ready\n"
            subprocess.run([*gdb, "-p", str(child.pid), "-ex", f"generate-core-file {core}"], check=True)
        finally:
            child.kill()
    assert hugealign("fix", plain, "-o", again).returncode == 0

    def frames(program: Path) -> str:
        done = subprocess.run([*gdb, "-ex", "bt", program, core], check=True, capture_output=True, text=True)
        return done.stdout

    assert " in main ()" not in frames(plain)
    assert " in main ()" in frames(again)


_SMALL = """
import mmap, sys, time
with open(sys.argv[1], "rb") as file:
    window = mmap.mmap(file.fileno(), 2 << 20, mmap.MAP_SHARED, mmap.PROT_READ, offset=int(sys.argv[2]))
    window.madvise(15)  # MADV_NOHUGEPAGE
    sum(window[at] for at in range(0, 2 << 20, 4096))
    print("ready", flush=True)
    time.sleep(60)
"""


def test_a_window_that_is_small_in_place_is_not_blamed_on_mounts(programs: Programs) -> None:
    """Where no copy can be mounted, what is seen in place is the reason, and it can be had once that has ended."""
    need("strace")
    good = programs.copy("partly")
    with good.open("rb") as file:
        offset = measure.text_windows(file.fileno())[1]
    words = ["strace", "-f", "-o", "/dev/null", "-e", "trace=unshare", "-e", "inject=unshare:error=EPERM"]
    words += [str(HUGEALIGN), "run", "--file", str(good), "--", "true"]
    with subprocess.Popen([sys.executable, "-c", _SMALL, good, str(offset)], stdout=subprocess.PIPE) as user:
        try:
            assert user.stdout
            assert user.stdout.readline() == b"ready\n"
            done = subprocess.run(words, check=False, capture_output=True, text=True, env=environment())
            if not done.stderr:
                pytest.skip("MADV_COLLAPSE works on files here: a running program is no obstacle")
            name = Path(f"/proc/{user.pid}/comm").read_text().strip()
            reason = worded("cache.in-use", process=user.pid, name=name)
            assert f"{WINDOWS - 1} of {WINDOWS} windows huge: {reason}" in done.stderr
        finally:
            user.kill()
    assert subprocess.run(words, check=False, capture_output=True, text=True, env=environment()).stderr == ""
