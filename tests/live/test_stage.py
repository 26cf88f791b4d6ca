"""``hugealign run`` by staged copies, on a file system that keeps no huge folios: as without us, but huge."""

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hugealign.diagnosis.catalogue import REMEDIES
from hugealign.diagnosis.refusal import RefusalError
from tests.live import stock as stocks
from tests.live.programs import NOBODY, ROOT, WINDOW, WINDOWS, Programs, huge_kib
from tests.live.stock import USER, command, mounts
from tests.live.test_bad_input import in_group
from tests.strace import each, needs_strace
from tests.support import advised, environment, need, refused, worded

ALL = WINDOWS * WINDOW >> 10
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to mount a file system without huge folios")
pytestmark = needs_root


@pytest.fixture(params=[False, True], ids=["root", "user"])
def user(request: pytest.FixtureRequest) -> bool:
    """Whether an ordinary user starts the command."""
    as_user = bool(request.param)
    if as_user:
        done = subprocess.run([*USER, "unshare", "--user", "--mount", "true"], check=False, capture_output=True)
        if done.returncode:
            pytest.skip(f"no user namespaces here: {done.stderr.decode().strip()}")
    return as_user


@contextlib.contextmanager
def running(words: list[str], **settings: Any) -> Iterator[subprocess.Popen[str]]:
    """Run *words* until they say that they are ready."""
    settings.setdefault("env", environment())
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, **settings) as child:
        try:
            assert child.stdout
            for line in child.stdout:
                if line == "ready\n":
                    break
            yield child
        finally:
            child.kill()


def message(words: list[str], **settings: Any) -> subprocess.CompletedProcess[str]:
    settings.setdefault("env", environment())
    return subprocess.run(words, check=False, capture_output=True, text=True, errors="surrogateescape", **settings)


def one_line(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Check that the command ran all the same, and that one line says why it is not huge."""
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (0, "", 1), done
    for part in parts:
        assert part in done.stderr


def peculiar() -> None:
    """Have everything that a process can have from its parent in a way of its own."""
    import ctypes

    os.umask(0o027)
    os.nice(3)
    resource.setrlimit(resource.RLIMIT_NOFILE, (123, 456))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.pthread_sigmask(signal.SIG_SETMASK, [signal.SIGUSR1, signal.SIGRTMIN])
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    Path("/proc/self/oom_score_adj").write_text("123", encoding="ascii")
    Path("/proc/self/timerslack_ns").write_text("70000", encoding="ascii")
    prctl = ctypes.CDLL(None).prctl
    prctl(24, ctypes.c_ulong(25), 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_TIME
    prctl(24, ctypes.c_ulong(13), 0, 0, 0)  # CAP_NET_RAW


def state(stdout: str) -> list[str]:
    """Return what ``state`` said, but for numbers of what is not there twice; sh puts variables into another order."""
    return sorted(re.sub(r"(pipe|socket):\[\d+\]", r"\1", line) for line in stdout.splitlines())


@pytest.mark.parametrize("extra", [(), ("--nnp",)], ids=["", "no-new-privs"])
def test_everything_is_as_without(stock: Path, user: bool, extra: tuple[str, ...]) -> None:
    program = stock / "state"
    given = os.open("/etc/passwd", os.O_RDONLY)
    prefix = ("setpriv", *extra) if extra else ()
    environ = {"PATH": "/usr/bin:/bin", "A": "1", "LC_ALL": "C", "PWD": str(stock), "ODD": "\n\udcff"}
    settings: dict[str, Any] = {
        "cwd": stock,
        "env": environ,
        "pass_fds": (given,),
        "preexec_fn": peculiar,
        "stdin": subprocess.DEVNULL,
        "start_new_session": True,
    }
    words = ["./state", "a b", "--", "-v"]
    plain = message([*prefix, *(USER if user else ()), *words], **settings)
    ours = message([*prefix, *command("run", "--how=stage", "--", *words, user=user)], **settings)
    os.close(given)
    assert (ours.returncode, ours.stderr) == (plain.returncode, "")
    assert "ready" in plain.stdout
    assert state(ours.stdout) == state(plain.stdout)
    with running(command("run", "--how=stage", "--", program, "x", "wait", user=user)) as child:
        assert huge_kib(child.pid, program) == ALL
        assert os.readlink(f"/proc/{child.pid}/exe") == str(program)


def test_auto_takes_a_copy_where_the_file_system_has_none(stock: Path, user: bool) -> None:
    for how, kib in (("auto", ALL), ("in-place", 0)):
        with running(command("run", f"--how={how}", "--", stock / "good", "5", user=user)) as child:
            assert huge_kib(child.pid, stock / "good") == kib
    done = message(command("run", "--how=in-place", "--", stock / "good", user=user))
    run = advised("run", "hugealign", "run", "--file", stock / "good", "--", needs="command")
    one_line(done, f"0 of 3 windows huge: {worded('file-system.no-huge-pages', file_system='btrfs')}; {run}")


def test_copy_in_memory(stock: Path, user: bool) -> None:
    with running(command("run", "-v", "--how=copy", "--", stock / "good", "5", user=user)) as child:
        smaps = Path(f"/proc/{child.pid}/smaps").read_text(encoding="utf-8")
        huge = sum(int(n) for n in re.findall(r"ShmemPmdMapped: +(\d+)", smaps))
        assert os.readlink(f"/proc/{child.pid}/exe") == "/memfd:good (deleted)"
        assert Path(f"/proc/{child.pid}/cmdline").read_bytes() == f"{stock}/good\x005\0".encode()
        assert sorted(os.listdir(f"/proc/{child.pid}/fd")) == ["0", "1", "2"]
        child.kill()
        assert child.stderr
        assert (huge, child.stderr.read().count("(copy)")) == (ALL, 1)


def test_libraries_by_origin_and_dlopen(stock: Path, user: bool) -> None:
    with running(command("run", "--libs", "--", stock / "user", user=user)) as child:
        assert huge_kib(child.pid, stock / "lib/libused.so") == ALL
    done = message(command("run", "--", stock / "state", stock / "lib/libused.so", user=user))
    assert "dlopen 1\n" in done.stdout


def test_script_status_signal_and_closed_streams(stock: Path, user: bool) -> None:
    script = stock / "script"
    script.write_text(f"#!{stock}/good 5\n")
    script.chmod(0o755)
    with running(command("run", "--", script, user=user)) as child:
        assert huge_kib(child.pid, stock / "good") == ALL
        child.send_signal(signal.SIGTERM)
        assert child.wait() == -signal.SIGTERM
    shell = stock / "shell"
    shutil.copy("/bin/sh", shell)
    for redirection in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        line = f'exec {" ".join(command("run", "--how=stage", "--", user=user))} "$0" {redirection}'
        assert message(["/bin/sh", "-c", line, str(stock / "good")]).returncode == 0
    assert message(command("run", "--how=stage", "--", shell, "-c", "exit 7", user=user)).returncode == 7


def test_deleted_working_directory(stock: Path, user: bool) -> None:
    gone = stock / "gone"
    gone.mkdir()
    words = command("run", "--how=stage", "--", stock / "state", user=user)
    line = f'rmdir "{gone}"; exec "$@"'
    done = message(["/bin/sh", "-c", line, "sh", *words], cwd=gone)
    assert f"/proc/self/cwd -> {gone} (deleted)" in done.stdout
    assert "hugealign" not in done.stderr  # the shell of the test says something


def test_nothing_is_left_mounted(stock: Path, user: bool) -> None:
    """The caller's mounts are shared, so a mount that is not kept to ourselves would show."""
    words = " ".join(command("run", "--how=stage", "--", stock / "good", user=user))
    line = f"mount --make-rshared / && cat /proc/self/mountinfo && echo here && {words} && cat /proc/self/mountinfo"
    before, after = message(["unshare", "--mount", "sh", "-ec", line]).stdout.split("here\n")
    assert before == after
    assert "shared:" in before


def test_program_that_gives_privileges(stock: Path, user: bool) -> None:
    program = stock / "privileged"
    shutil.copy(stock / "state", program)
    os.chown(program, 1234, 1234)
    program.chmod(0o6755)
    plain = message([*(USER if user else ()), str(program)])
    done = message(command("run", "--how=stage", "--", program, user=user))
    assert (done.returncode, state(done.stdout)) == (0, state(plain.stdout))
    assert re.search(r"^Uid:\t\d+\t1234\t1234", done.stdout, re.MULTILINE)
    if user:
        assert done.stderr.endswith(f"{worded('process.privileged-program')}\n")
    else:
        assert done.stderr == ""


def saying(stock: Path, name: str, expression: str) -> Path:
    """A program that prints the number; it has no window, but its library has."""
    source = stock / f"{name}.c"
    lines = ["#include <stdio.h>", "#include <sys/prctl.h>", "#include <unistd.h>"]
    source.write_text("\n".join([*lines, f'int main(void) {{ printf("%d\\n", {expression}); }}\n']))
    libraries = ["-Wl,--no-as-needed", f"-L{stock}/lib", f"-Wl,-rpath,{stock}/lib", "-lused"]
    subprocess.run(["gcc", source, "-o", stock / name, *libraries], check=True)
    return stock / name


def test_secure_bits_stay(stock: Path, user: bool) -> None:
    program = saying(stock, "bits", "prctl(PR_GET_SECUREBITS)")
    words = command("run", "-v", "--how=stage", "--libs", "--", program, user=user)
    if user:
        assert words[0] == "setpriv"
        words.insert(1, "--securebits=+noroot,+noroot_locked")
    done = message(words)
    assert (done.returncode, done.stdout) == (0, "3\n" if user else "0\n")
    assert "(stage)" in done.stderr


def test_program_that_gives_privileges_keeps_them_beside_its_libraries(stock: Path, user: bool) -> None:
    """It has no window itself; its libraries' copies need a user namespace, in which it would give nothing."""
    program = saying(stock, "euid", "geteuid()")
    os.chown(program, 1234, 1234)
    program.chmod(0o4755)
    done = message(command("run", "--how=stage", "--libs", "--", program, user=user))
    assert (done.returncode, done.stdout) == (0, "1234\n")
    assert done.stderr.count(worded("process.privileged-program")) == user


def test_program_with_capabilities(stock: Path, user: bool) -> None:
    need("setcap")
    program = stock / "capable"
    shutil.copy(stock / "state", program)
    subprocess.run(["setcap", "cap_net_bind_service=ep", program], check=True)
    plain = message([*(USER if user else ()), str(program)])
    done = message(command("run", "--how=stage", "--", program, user=user))
    assert state(done.stdout) == state(plain.stdout)
    assert done.stderr.count(worded("process.privileged-program")) == user
    # The copy also has them: root may leave what it is before it executes the program.
    words = command("run", "--how=stage", "--", program, "x", "wait")
    with running(words) as child:
        there = os.getxattr(f"/proc/{child.pid}/root{program}", "security.capability")
        assert there == os.getxattr(program, "security.capability")
        assert huge_kib(child.pid, program) == ALL


@pytest.mark.parametrize("option", ["nosuid", "noexec"])
def test_mount_options_stay_in_force(stock: Path, option: str) -> None:
    program = stock / "set-user-id"
    shutil.copy(stock / "good", program)
    os.chown(program, 1234, -1)
    program.chmod(0o4755)
    words = " ".join(command("run", "--how=stage", "--", program))
    line = f"mount --bind {stock} {stock} && mount -o remount,bind,{option} {stock} && exec {words}"
    done = message(["unshare", "--mount", "sh", "-ec", line])
    if option == "noexec":
        assert done.returncode == 126
        assert "Permission denied" in done.stderr
    else:
        one_line(done, worded("copy.mount-option", option="nosuid"))


def test_unreadable_program(stock: Path) -> None:
    program = stock / "unreadable"
    shutil.copy(stock / "good", program)
    program.chmod(0o711)
    for options in ((), ("-v",)):
        one_line(message(command("run", *options, "--", program, user=True)), worded("file.unreadable", error="EACCES"))


_EXCHANGE = """
import os, sys
from hugealign import cli
from hugealign.run import copies
measure = copies.huge_windows
def exchanged(copy):
    os.rename({other!r}, {program!r})
    return measure(copy)
copies.huge_windows = exchanged
sys.exit(cli.main(["run", "--how=stage", "--store=/none", "--", {program!r}, "5"]))
"""


def test_name_exchanged_between_copy_and_mount(stock: Path) -> None:
    """The owner of the directory puts another file there: it is not covered, and no copy of the old one is executed."""
    program, other = stock / "exchanged", stock / "other"
    shutil.copy(stock / "good", program)
    shutil.copy(stock / "plain", other)
    inode = other.stat().st_ino
    code = _EXCHANGE.format(program=str(program), other=str(other))
    with running([sys.executable, "-c", code], cwd=ROOT) as child:
        assert Path(f"/proc/{child.pid}/exe").stat().st_ino == inode
        assert huge_kib(child.pid, program) == 0
        child.kill()
        assert child.stderr
        assert worded("file.changed") in child.stderr.read()


def test_symbolic_link_in_place_of_the_name(stock: Path) -> None:
    """Root is not led to cover another file."""
    program, target = stock / "linked", stock / "target"
    shutil.copy(stock / "good", program)
    shutil.copy(stock / "plain", target)
    other = stock / "other"
    other.symlink_to(target)
    code = _EXCHANGE.format(program=str(program), other=str(other))
    with running([sys.executable, "-c", code], cwd=ROOT) as child:
        assert (Path(f"/proc/{child.pid}/root") / target.relative_to("/")).stat().st_ino == target.stat().st_ino
        assert os.readlink(f"/proc/{child.pid}/exe") == str(target)


def test_limits_that_prevent_a_copy(stock: Path, user: bool) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    done = message(command("run", "--how=stage", "--", stock / "good", user=user), preexec_fn=limit)
    one_line(done, f"0 of 3 windows huge: {worded('copy.failed', error='EFBIG')}")


def test_control_group_without_the_memory(stock: Path) -> None:
    """A tmpfs that grows over the limit would end processes, not fail: nothing is copied then."""
    memory = Path("/sys/fs/cgroup/memory")
    if not (memory / "memory.limit_in_bytes").exists():
        memory = Path("/sys/fs/cgroup")
    group = memory / f"hugealign-stage-{os.getpid()}"
    try:
        group.mkdir()
        prefix = in_group(group, 60 << 20)
    except OSError as error:
        pytest.skip(f"no control group for memory: {error.strerror}")
    program = stock / "long"
    shutil.copy(stock / "good", program)
    os.truncate(program, 100 << 20)
    try:
        done = message([*prefix, *command("run", "--how=stage", "--", program)])
        one_line(done, f"0 of 3 windows huge: {worded('copy.no-room', size=100 << 20, room=0).partition('0 B')[0]}")
    finally:
        group.rmdir()


def test_a_limit_that_the_program_needs_itself(stock: Path) -> None:
    """What is left of 64 MiB with a copy of 34 is too little for the other 40 that the file's pages make room for."""
    memory = Path("/sys/fs/cgroup/memory")
    if not (memory / "memory.limit_in_bytes").exists():
        memory = Path("/sys/fs/cgroup")
    group = memory / f"hugealign-limited-{os.getpid()}"
    try:
        group.mkdir()
        prefix = in_group(group, 64 << 20)
    except OSError as error:
        pytest.skip(f"no control group for memory: {error.strerror}")
    program = stock / "larger"
    shutil.copy(stock / "good", program)
    with program.open("ab") as file:
        file.write(os.urandom(1 << 20) * 28)
    try:
        with running([*prefix, *command("run", "--how=stage", "--", program, "5")]) as child:
            takes = message([*prefix, sys.executable, "-c", "bytearray(b'x') * (40 << 20)"])
            assert (takes.returncode, child.poll()) == (0, None)
            child.kill()
            assert child.stderr
            assert (
                worded("copy.no-room", size=program.stat().st_size, room=0).partition("0 B")[0] in child.stderr.read()
            )
    finally:
        group.rmdir()


_NO_NAMESPACES = """
import ctypes, os, sys
go, told = os.pipe(), os.pipe()
child = os.fork()
if not child:
    ctypes.CDLL(None).unshare(0x10000000)
    os.write(told[1], b"x")
    os.read(go[0], 1)
    open("/proc/sys/user/max_user_namespaces", "w").write("0")
    os.execvp(sys.argv[1], sys.argv[1:])
os.read(told[0], 1)
for name in ("uid_map", "gid_map"):
    open(f"/proc/{child}/{name}", "w").write("0 0 65535")
os.write(go[1], b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_permission_by_group(stock: Path) -> None:
    """The copy is the user's own, so what the group may do to the file its owner may do to the copy."""
    program = stock / "of-a-group"
    shutil.copy(stock / "good", program)
    os.chown(program, 0, 65534)
    program.chmod(0o050)
    with running(command("run", "--how=stage", "--", program, "5", user=True)) as child:
        assert huge_kib(child.pid, program) == ALL


def no_user_namespaces(*_: Path) -> list[str]:
    return [sys.executable, "-c", _NO_NAMESPACES, "setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"]


def no_right_to_mount(*_: Path) -> list[str]:
    """As in a container: a user namespace would take from root what it may outside, so it gets none."""
    return ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]


def root_that_is_no_mount_point(stock: Path, inside: Path) -> list[str]:
    """There nothing can be kept to ourselves, so nothing is mounted."""
    places = [p for p in ("/usr", "/bin", "/lib", "/lib64", "/proc", "/dev", str(ROOT), str(stock)) if Path(p).exists()]
    lines = [f"mkdir -p {inside}{p} && mount --rbind {p} {inside}{p}" for p in places]
    return ["unshare", "--mount", "sh", "-ec", "\n".join([*lines, f'exec chroot {inside} "$@"']), "sh"]


@pytest.mark.parametrize(
    ("where", "code", "facts"),
    [
        (no_user_namespaces, "process.no-mounts", {"call": "unshare", "error": "ENOSPC"}),
        (no_right_to_mount, "process.would-lose-privileges", {}),
        (root_that_is_no_mount_point, "process.no-mounts", {"call": "mount", "error": "EINVAL"}),
    ],
)
def test_where_nothing_may_be_mounted(
    stock: Path, tmp_path: Path, where: Callable[[Path, Path], list[str]], code: str, facts: dict[str, str]
) -> None:
    """The program runs from a copy without a path, under the name that it was called by."""
    prefix = where(stock, tmp_path)
    done = message([*prefix, *command("run", "--how=stage", "--", stock / "good")])
    one_line(done, worded(code, **facts), advised("look", "hugealign", "explain", code))
    link = stock / "called"
    link.unlink(missing_ok=True)
    link.symlink_to(stock / "good")
    with running([*prefix, *command("run", "--", link, "5")]) as child:
        pid = children(child.pid) or [child.pid]
        smaps = Path(f"/proc/{pid[0]}/smaps").read_text(encoding="utf-8")
        assert sum(int(n) for n in re.findall(r"ShmemPmdMapped: +(\d+)", smaps)) == ALL
        assert Path(f"/proc/{pid[0]}/comm").read_text() == "called\n"
        for one in pid:
            os.kill(one, signal.SIGKILL)
        assert child.stderr
        assert child.stderr.read() == ""


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


def test_a_program_that_looks_for_itself_is_not_copied_without_a_path(stock: Path) -> None:
    """`state` reads /proc/self/exe, `user` finds its library from $ORIGIN; --how=copy leaves that to who says it."""
    prefix = no_right_to_mount()
    look = advised("look", "hugealign", "explain", "process.would-lose-privileges")
    plain, done = (message([*prefix, *words]) for words in ([stock / "state"], command("run", "--", stock / "state")))
    assert state(done.stdout) == state(plain.stdout)
    assert done.stderr.endswith(f"0 of 3 windows huge: {worded('copy.own-path')}; {look}\n")
    for name in ("LD_LIBRARY_PATH", "LD_PRELOAD"):
        env = environment(**{name: "${ORIGIN}/lib"})
        done = message([*prefix, *command("run", "--", stock / "good")], env=env)
        assert worded("copy.own-path") in done.stderr, name
    done = message([*prefix, *command("run", "--how=copy", "--", stock / "state")])
    assert ("/proc/self/exe -> /memfd:state (deleted)" in done.stdout, done.stderr) == (True, "")


def test_libraries_that_a_copy_without_a_path_leaves_out(stock: Path) -> None:
    library = stock / "lib/libused.so"
    env = environment(LD_LIBRARY_PATH=str(library.parent))
    with running(command("run", "--how=copy", "--libs", "--", stock / "user"), env=env) as child:
        child.kill()
        assert child.stderr
        assert f"{library}: 0 of 3 windows huge: {worded('copy.library')}\n" in child.stderr.read()


def test_a_copy_that_must_not_be_executed(stock: Path) -> None:
    """strace does not count its own: the second is that of the copy, after Python; then the file is executed."""
    need("strace")
    prefix = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=execve", "-e", "inject=execve:error=EACCES:when=2"]
    done = message([*prefix, *command("run", "--how=copy", "--", stock / "good")])
    assert (done.returncode, done.stderr.count("its copy cannot be executed: Permission denied")) == (0, 1)


def test_process_1_ends_when_told_while_it_prepares(stock: Path) -> None:
    """The kernel keeps such signals from a process 1 that does not handle them, and the command would start."""
    need("strace")
    default = ("env", "--default-signal=TERM,INT,QUIT")  # a shell ignores two of them in the background
    slowly = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fchmod", "-e", "inject=fchmod:delay_enter=3s")
    words = ["unshare", "--pid", "--fork", "--kill-child", *command("run", "--how=copy", "--", stock / "good", "5")]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        with subprocess.Popen([*default, *slowly, *words], env=environment(), stdout=subprocess.PIPE) as child:
            process = None
            while process is None:
                assert child.poll() is None
                process = next(filter(has_copy, descendants(child.pid)), None)
            os.kill(process, number)
            assert child.stdout
            said = child.stdout.read(5)
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            assert (said, child.wait()) == (b"", 128 + number)


def descendants(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for child in children(pid):
            yield child
            yield from descendants(child)


def has_copy(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return any("memfd:good" in os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
    return False


@pytest.mark.parametrize("how", ["stage", "copy"])
def test_no_shared_memory_directory(stock: Path, how: str) -> None:
    """Copies are on a tmpfs of their own, or in memory without a path: none needs /dev/shm, which is not there."""
    words = " ".join(command("run", f"--how={how}", "--", stock / "good", "5"))
    line = f"mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && exec {words}"
    with running(["unshare", "--mount", "sh", "-ec", line]) as child:
        smaps = Path(f"/proc/{child.pid}/smaps").read_text(encoding="utf-8")
        assert sum(int(n) for n in re.findall(r"ShmemPmdMapped: +(\d+)", smaps)) == ALL
        assert not Path(f"/proc/{child.pid}/root/dev/shm").exists()


def test_capabilities_of_the_caller_are_kept(stock: Path) -> None:
    """An ordinary user with a capability, as systemd gives it: rather small pages than without it."""
    ambient = ("--inh-caps=+net_bind_service", "--ambient-caps=+net_bind_service")
    words = [*NOBODY, *ambient]
    plain = message([*words, str(stock / "state")])
    done = message([*words, *command("run", "--", stock / "state")])
    assert state(done.stdout) == state(plain.stdout)
    assert "CapAmb:\t0000000000000400" in done.stdout
    assert done.stderr.count(worded("copy.own-path")) == 1


def test_copy_cannot_be_written_to(stock: Path, user: bool) -> None:
    """What a program writes to its own libraries must not be lost, nor reach others: it is refused."""
    with running(command("run", "--how=stage", "--libs", "--", stock / "user", user=user)) as child:
        path = f"/proc/{child.pid}/root{stock}/lib/libused.so"
        with pytest.raises(OSError, match="Read-only file system"):
            os.close(os.open(path, os.O_WRONLY))


def test_fixed_copy(stock: Path, user: bool) -> None:
    program = stock / "plain"
    before = program.read_bytes()
    with running(command("run", "--fix", "--", program, "5", user=user)) as child:
        huge = huge_kib(child.pid, program)
        assert huge >= 2 * WINDOW >> 10
    done = message(command("run", "--", program, user=user))
    run = advised("run", "hugealign", "run", "--fix", "--", needs="command", before=0, after=3)
    one_line(done, f"{worded('text.no-window', page_size=2 << 20)}; {run}")
    assert program.read_bytes() == before


#: The system calls of `run` that stage a copy; each fails once, and kills once.
_CALLS = "unshare mount umount2 copy_file_range pwrite64 ftruncate fchown fchmod utimensat clone".split()


@needs_strace
@pytest.mark.parametrize("fault", ["error=EIO", "signal=KILL"])
@pytest.mark.parametrize(
    ("calls", "numbers"),
    [
        (("mount", "pwrite64"), (1, 3)),
        pytest.param(_CALLS, range(1, 12), marks=[pytest.mark.matrix, pytest.mark.timeout(3600)]),
    ],
    ids=["some", "all"],
)
def test_run_that_fails_or_dies(stock: Path, calls: tuple[str, ...], numbers: Any, fault: str, tmp_path: Path) -> None:
    program = stock / "good"
    content, before = program.read_bytes(), mounts()
    hit: set[str] = set()
    for _, prefix in each(calls, numbers, fault, tmp_path / "trace", hit):
        done = message([*prefix, *stocks.module("run", "--how=stage", "--", program)])
        if fault.startswith("error"):
            assert done.returncode == 0, (prefix, done)
            assert done.stderr.count("\n") <= 1
        assert "Traceback" not in done.stderr
        assert mounts() == before, prefix
        assert program.read_bytes() == content
    assert hit == set(calls)


def test_every_check_of_a_copy(stock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes while it is copied is not executed from half of it."""
    from hugealign.io import copying
    from hugealign.io.regular import opened
    from hugealign.run import copies

    program = stock / "changing"
    shutil.copy(stock / "good", program)
    copy: Callable[[int, int, int], None] = copying.copy_data

    def slowly(source: int, target: int, size: int) -> None:
        copy(source, target, size)
        with program.open("r+b") as file:
            file.write(b"\x7f")

    monkeypatch.setattr(copying, "copy_data", slowly)
    with opened(str(program)) as fd:
        origin = copies.source(str(program), fd)
        assert origin is not None
        target = os.memfd_create("copy")
        with refused("file.changed"):
            copies.write(origin, target)
        monkeypatch.setattr(copying, "copy_data", copy)
        origin = copies.source(str(program), fd)
        assert origin is not None
        copies.write(origin, target)
        os.close(target)


def test_ps_knows_copies(stock: Path, user: bool) -> None:
    program = stock / f"seen-{user}"
    shutil.copy(stock / "good", program)

    def ps(pid: int) -> str:
        return message(command("ps", str(pid))).stdout

    with running(command("run", "--", program, "5", user=user)) as child:
        assert "huge pages (tmpfs), staged\n" in ps(child.pid)
        assert ": all 3 windows are huge\n" in ps(child.pid)
        # Changed in place, where only its copy is executed: no ETXTBSY keeps anybody from it.
        with program.open("r+b") as file:
            file.seek(0, os.SEEK_END)
            file.write(b"more")
        assert ps(child.pid).endswith(f"  {worded('copy.outdated')}\n  {REMEDIES['restart']}\n")
        program.unlink()
        assert "staged\n" in ps(child.pid)
        assert ps(child.pid).endswith(f"  {worded('copy.outdated')}\n  {REMEDIES['restart']}\n")


def test_a_checkout_below_the_covered_directory() -> None:
    """The tmpfs of a command covers a directory such as /tmp; what is still to be loaded must not lie below it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        copy = Path(directory)
        for part in ("bin", "hugealign", "ld-scripts"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        ours, command = str(copy / "bin" / "hugealign"), ["/usr/bin/python3", "-c", "print(3)"]
        words = [ours, "run", "-v", "--fix", "--how=stage", "--", *command]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment())
    assert done.stdout == "3\n"
    assert "windows huge (stage)" in done.stderr, done.stderr


def test_code_is_not_searched_for_a_fix_that_gains_nothing(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes seconds for a large library, at each start of `run --fix`; the headers tell what a fix can gain."""
    from hugealign.fixing import fix
    from hugealign.io.regular import opened
    from hugealign.run import copies

    searched: list[int] = []

    def outcome(fd: int, _: object) -> fix.Outcome:
        searched.append(fd)
        raise RefusalError("fix.no-window")

    monkeypatch.setattr(fix, "outcome", outcome)
    for path, searches in ((programs.good, 0), (programs.plain, 1)):
        with opened(str(path)) as fd:
            origin = copies.source(str(path), fd, copies.Fixes())
        assert (origin is not None, len(searched)) == (not searches, searches)
