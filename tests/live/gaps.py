"""Root's commands, stopped between two system calls while another user changes what they work on.

`python -m tests.live.gaps --row stage --count 2000` runs a command under ptrace(2) once for each gap and each act: it
counts the system calls from the first that names the ground on, stops before one of them, lets uid 65534 do the act,
and lets the command go on to its end.  Whatever that user does, root may give him nothing: no file confers privileges
that did not, and nothing of root's changes outside of what was named.  Status 1 if something of that happened.
"""

import argparse
import contextlib
import ctypes
import errno
import functools
import hashlib
import importlib
import itertools
import os
import pkgutil
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import hugealign
from hugealign.changes import changes
from hugealign.cli import main as hugealign_main
from hugealign.errors import HugealignError
from hugealign.io import native
from hugealign.services import dropins, programs
from hugealign.wrapper import plugin_builds

USER = 65534
#: Moments for the short test: before the calls that give something, and before those that name what is exchanged.
GIVING, NAMING = 0, -1
#: What the other user exchanges: a program, one that has a second name, the list of a wheel that has the first; and
#: code in a cache that root might load.
TARGETS = PROGRAM, TWICE, LIST = "site-packages/program", "a", "site-packages/a.dist-info/RECORD"
CODE = "cache/hugealign/a.so"
_CONT, _SYSCALL, _SETOPTIONS, _GET_SYSCALL_INFO = 7, 24, 0x4200, 0x420E  # linux/ptrace.h
_TRACEME = 0
#: SYSGOOD, FORK, VFORK, CLONE, EXITKILL.
_OPTIONS = 1 | 2 | 4 | 8 | 0x100000
_STOPPED_AT_CALL = signal.SIGTRAP | 0x80
_ENTRY = 1
_SECONDS = 30
_PROGRAM = """\
__asm__(".pushsection .text.z,\\"ax\\",@progbits; .skip 5 << 19, 0x90; .popsection");
int main(void) { return 0; }
"""
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


@dataclass
class Ran:
    """The *calls* before which a command could be stopped, its *status*, what it *said*, and what came of the *act*.

    Of a call there are its number and, if the command was not stopped, the paths that it names.

    *begun* is the number of the call that opens the root directory: a walk without links begins there.
    """

    calls: list[tuple[int, list[bytes]]]
    status: int
    said: str
    act: str = ""
    begun: int = 0


def stopped(work: Callable[[], int], mark: bytes, at: int, act: Callable[[], str], output: Path) -> Ran:
    """Run *work* in a child; before its system call number *at*, from the first that names *mark* on, do *act*."""
    child = os.fork()
    if not child:
        _be_traced(work, output)
    os.waitpid(child, 0)
    _ptrace(_SETOPTIONS, child, 0, _OPTIONS)
    _ptrace(_SYSCALL, child, 0, 0)
    ran, seen, request, tracees = Ran([], 0, ""), False, _SYSCALL, {child}

    def hangs(*_: object) -> None:
        ran.status = -signal.SIGALRM
        for tracee in tracees:
            os.kill(tracee, signal.SIGKILL)

    signal.signal(signal.SIGALRM, hangs)
    signal.alarm(_SECONDS)
    while tracees:
        pid, state = os.waitpid(-1, _WALL)
        if not os.WIFSTOPPED(state):
            tracees.discard(pid)
            if pid == child:
                ran.status = ran.status or os.waitstatus_to_exitcode(state)
            continue
        tracees.add(pid)
        number, send = os.WSTOPSIG(state), 0
        if number == _STOPPED_AT_CALL:
            if words := _entered(pid):
                paths = [] if at >= 0 and ran.begun else _paths(pid, words)
                seen = seen or any(mark in path for path in paths)
                if seen:
                    if not ran.begun and b"/" in paths:
                        ran.begun = len(ran.calls)
                    if len(ran.calls) == at:
                        ran.act, request = act(), _CONT
                    ran.calls.append((words[0], paths))
        elif number not in (signal.SIGTRAP, signal.SIGSTOP):
            send = number
        _ptrace(request, pid, 0, send)
    signal.alarm(0)
    ran.said = output.read_text(errors="replace")
    return ran


_WALL = 0x40000000


def _be_traced(work: Callable[[], int], output: Path) -> None:
    status = 1
    try:
        with output.open("wb") as file:
            for fd in (1, 2):
                os.dup2(file.fileno(), fd)
        # Not what pytest has put there.
        sys.stdout, sys.stderr = (open(fd, "w", encoding="utf-8", closefd=False) for fd in (1, 2))  # noqa: SIM115
        _libc.ptrace(_TRACEME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        status = work()
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001  # the child ends here
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _ptrace(request: int, pid: int, address: int, data: int) -> None:
    if _libc.ptrace(request, pid, address, data) < 0 and ctypes.get_errno() != errno.ESRCH:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _entered(pid: int) -> tuple[int, ...]:
    """Return the arguments of the system call that *pid* is about to do; nothing if it has just done one."""
    block = ctypes.create_string_buffer(88)
    if _libc.ptrace(_GET_SYSCALL_INFO, pid, len(block), ctypes.addressof(block)) < 0 or block.raw[0] != _ENTRY:
        return ()
    return struct.unpack_from("=7Q", block.raw, 24)


def _paths(pid: int, words: Sequence[int]) -> list[bytes]:
    """Return the first two arguments of a system call, as far as they are strings."""
    result = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for address in words[1:3]:
            with contextlib.suppress(OSError, ValueError, OverflowError):
                result.append(os.pread(memory.fileno(), 256, address).split(b"\0")[0])
    return result


class Ground:
    """What the commands work on: *user*, a directory of another user's, and *root*, which is not named to them."""

    def __init__(self, top: Path) -> None:
        self.top, self.user, self.root, self.store = top, top / "user", top / "root", top / "store"
        top.chmod(0o755)
        source = top / "program.c"
        source.write_text(_PROGRAM)
        build: list[str | Path] = ["gcc", "-O1", source]
        subprocess.run([*build, "-o", top / "good", "-Wl,-z,max-page-size=0x200000,-z,separate-code"], check=True)
        subprocess.run([*build, "-o", top / "plain", "-Wl,-z,max-page-size=0x1000"], check=True)
        subprocess.run(
            [sys.executable, "-m", "hugealign", "fix", "--level=shift", top / "plain", "-o", top / "fixed"], check=True
        )
        self.root.mkdir()
        self.kinds = {name: (top / name).read_bytes() for name in ("good", "plain", "fixed")}
        for name in ("good", "plain", "fixed"):
            (self.root / name).mkdir()
            (self.root / name / "program").write_bytes(self.kinds[name])
            (self.root / name / "program").chmod(0o755)
        self.secret = self.root / "secret"
        self.secret.write_bytes(self.kinds["plain"] + b"root's alone")
        self.secret.chmod(0o600)

    def lay(self, kind: str, roots: str) -> None:
        """Make the user's directory anew, with programs of *kind*, and links to a program of root's of kind *roots*."""
        shutil.rmtree(self.user, ignore_errors=True)
        (self.user / LIST).parent.mkdir(parents=True)
        (self.user / CODE).parent.mkdir(parents=True)
        for path in (self.user / PROGRAM, self.user / "a", self.user / "other"):
            path.write_bytes(self.kinds[kind])
            path.chmod(0o755)
        os.link(self.user / "a", self.user / "b")
        (self.user / CODE).write_text("code")
        (self.user / LIST).write_text("program,sha256=x,1\n")
        (self.user / "to-secret").symlink_to(self.secret)
        (self.user / "to-program").symlink_to(self.root / roots / "program")
        (self.user / "to-directory").symlink_to(self.root / roots)
        os.mkfifo(self.user / "fifo")
        for path in (self.user, *self.user.rglob("*")):
            os.chown(path, USER, USER, follow_symlinks=False)
        # Whoever owns the directory may rename what an administrator has put there.
        os.mknod(self.user / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
        shutil.copyfile(self.secret, self.user / "foreign")
        (self.user / "foreign").chmod(0o600)

    def state(self) -> dict[str, tuple[int, ...]]:
        """Return all of what is root's, as it must stay: with the number of names, and the time of any change."""
        keys = ("st_ino", "st_mode", "st_uid", "st_gid", "st_nlink", "st_size", "st_mtime_ns", "st_ctime_ns")
        return {
            str(path): tuple(getattr(path.lstat(), key) for key in keys) for path in (self.root, *self.root.rglob("*"))
        }

    def wrong(self) -> Iterator[str]:
        """Yield what must not be anywhere, neither in the user's directory nor in the store."""
        for path in (*self.user.rglob("*"), *self.store.rglob("*")):
            info = path.lstat()
            if path.name.startswith(".hugealign-") or path.name.endswith(".new"):
                yield f"{path} was left behind"
            if not stat.S_ISREG(info.st_mode):
                continue
            owners = ((stat.S_ISUID, info.st_uid), (stat.S_ISGID, info.st_gid))
            bits = sum(info.st_mode & bit for bit, owner in owners if not owner or path.is_relative_to(self.store))
            if bits and not (bits == stat.S_ISGID and path.read_bytes() in self.kinds.values()):
                yield f"{path} is {stat.filemode(info.st_mode)} of {info.st_uid}:{info.st_gid}"
            if "security.capability" in os.listxattr(path):
                yield f"{path} has capabilities"
            if info.st_uid == 0 and info.st_nlink > 1:
                yield f"{path} has {info.st_nlink} names"


def _exchange(one: Path, other: Path) -> None:
    words = (-100, os.fsencode(one), -100, os.fsencode(other), 2)  # AT_FDCWD, RENAME_EXCHANGE
    if _libc.renameat2(*words) < 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def _directory_for(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _linked(path: Path, other: Path) -> None:
    name = path.with_name("linked")
    os.link(other, name)
    name.rename(path)


def _written(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"!")


#: What the user does, to the program at *path* in his directory *user*.
ACTS: dict[str, Callable[[Path, Path], object]] = {
    "chmod u+s": lambda path, _: path.chmod(0o4755),
    "chmod g+s": lambda path, _: path.chmod(0o2755),
    "chmod go+w": lambda path, _: path.chmod(0o777),
    "rename": lambda path, user: (user / "other").replace(path),
    "rename of root's": lambda path, user: (user / "foreign").replace(path),
    "hard link": lambda path, user: _linked(path, user / "other"),
    "link to a secret": lambda path, user: (user / "to-secret").replace(path),
    "link to root's program": lambda path, user: (user / "to-program").replace(path),
    "truncate": lambda path, _: os.truncate(path, 0),
    "write": lambda path, _: _written(path),
    "FIFO": lambda path, user: (user / "fifo").replace(path),
    "device": lambda path, user: (user / "device").replace(path),
    "directory": lambda path, _: _directory_for(path),
    "unlink": lambda path, _: path.unlink(),
    "directory exchanged": lambda path, user: _exchange(
        (user / PROGRAM if path.parent == user else path).parent, user / "to-directory"
    ),
}  # fmt: skip


class Other:
    """The other user: a process that does an act on request."""

    def __init__(self, ground: Ground) -> None:
        self._asks, self._answers = os.pipe(), os.pipe()
        self._pid = os.fork()
        if not self._pid:
            os.close(self._asks[1])
            os.setgroups([])
            os.setgid(USER)
            os.setuid(USER)
            names = list(ACTS)
            while asked := os.read(self._asks[0], 2):
                try:
                    path = ground.user / (*TARGETS, CODE)[asked[1]]
                    ACTS[names[asked[0]]](path, ground.user)
                    answer = "done"
                except OSError as error:
                    answer = errno.errorcode.get(error.errno or 0, "?")
                os.write(self._answers[1], answer.encode())
            os._exit(0)

    def does(self, act: str, target: str) -> str:
        """Have him do *act* to *target*; return ``done``, or the name of the error."""
        os.write(self._asks[1], bytes([list(ACTS).index(act), (*TARGETS, CODE).index(target)]))
        return os.read(self._answers[0], 16).decode()

    def close(self) -> None:
        os.close(self._asks[1])
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


@dataclass
class Row:
    """A command of root's: *words*, or *work* in its process; *kind* is the program, *roots* what root has of it.

    It *says* this if the other user does nothing.  With *leads*, it works on what the path of a file leads to when it
    begins, through the other user's links also: nothing is exchanged before it knows that.  *risks* are the acts for
    the short test, each with how many gaps are between two of its moments, or one of GIVING and NAMING.
    """

    says: str
    words: tuple[str, ...] = ()
    kind: str = "plain"
    roots: str = ""
    targets: tuple[str, ...] = (PROGRAM,)
    before: Callable[[Ground], None] = lambda _: None
    work: Callable[[Ground], int] | None = None
    after: Callable[[Ground], None] = lambda _: None
    statuses: tuple[int, ...] = (0, 1, 3)
    leads: bool = False
    risks: tuple[tuple[str, str, int], ...] = (("directory exchanged", PROGRAM, 200),)

    def run(self, ground: Ground) -> int:
        """Do what the row is about."""
        if self.work:
            return self.work(ground)
        names = {"program": ground.user / PROGRAM, "user": ground.user, "store": ground.store}
        return hugealign_main([word.format(**names) for word in self.words])


def _noted(ground: Ground) -> None:
    """Put a line into root's journal for the program in ``sub``, as a fix does."""
    from hugealign.fixing.fix import FixOptions, fix

    fix(str(ground.user / PROGRAM), FixOptions(in_place=True, level="shift"))
    os.chown(ground.user / PROGRAM, USER, USER)


def _confers(ground: Ground) -> None:
    """Have an administrator let the user's program run with root's group."""
    os.chown(ground.user / PROGRAM, USER, 0)
    (ground.user / PROGRAM).chmod(0o2755)


def _replace(ground: Ground) -> int:
    """Replace the program; whether memory becomes huge, and who uses it, is not what this is about."""
    from hugealign.pagecache import diagnose, warming

    huge = iter((False, True))
    warming.warm = lambda _, offsets, *__: warming.Warmth((next(huge),) * len(offsets))
    diagnose.after_warming = lambda *_: diagnose.no_window("")
    diagnose.users_of = lambda *_: {}
    return hugealign_main(["warm", "--replace", str(ground.user / PROGRAM)])


def _cached(work: Callable[[], object]) -> Callable[[Ground], int]:
    """Return what does *work* as root does who has the other user's cache in his environment, as by ``sudo -E``."""

    def cached(ground: Ground) -> int:
        os.environ["XDG_CACHE_HOME"] = str((ground.user / CODE).parents[1])
        try:
            work()
        except (OSError, HugealignError) as error:  # `status` says it, and goes on
            print(error)
            return 3
        return 0

    return cached


def _compiled() -> None:
    native.library(str(Path(hugealign.__file__).with_name("code") / "scan.c"))


def _uncached() -> None:
    look, remove = changes.KINDS["change.cache"]
    for change in look():
        remove(change)


def _plugin() -> None:
    plugin_builds.shutil.which = lambda name: name  # type: ignore[attr-defined]  # cmake
    plugin_builds.build(plugin_builds.Llvm("14.0.6", "/nonexistent", "/nonexistent"))


def _enable(ground: Ground) -> int:
    units = ground.top / "units"
    units.mkdir(exist_ok=True)
    (units / "gaps.service").write_text("[Service]\nExecStart=/bin/true\n")
    programs.UNIT_DIRECTORIES = (str(units),)  # type: ignore[assignment]
    dropins.PLACE = str(units)
    return hugealign_main(["enable", "--file", str(ground.user / PROGRAM), "gaps"])


def _hold(ground: Ground) -> int:
    """Hold the program in memory, as the service of `enable --all` does."""
    from hugealign.machine import hold
    from hugealign.machine.plan import IN_PLACE, Part
    from hugealign.machine.state import Held
    from hugealign.run import copies
    from hugealign.system.saving import NOTHING

    path = str(ground.user / PROGRAM)
    part = Part(path, IN_PLACE, (path,), 1, 2 << 20, 0.0, NOTHING)
    one = Held(part, 0, 0, (copies.identity(os.stat(path), fixed=False),))
    held: set[tuple[str, int]] = set()
    hold.locked(path, one, held, print)
    print(f"windows held: {len(held)}")
    return 0


def _hook(ground: Ground) -> int:
    from hugealign.services import oci
    from hugealign.system import namespace

    reading, writing = os.pipe()
    container = os.fork()
    if not container:
        with contextlib.suppress(Exception):
            namespace.enter()
        os.write(writing, b".")
        signal.pause()
    os.read(reading, 1)
    try:
        wanted = oci.Container(container, str(ground.user), programs=(f"/{PROGRAM}",))
        for bound in oci.bind(wanted, str(ground.store)):
            print(bound)
    finally:
        os.kill(container, signal.SIGKILL)
        os.waitpid(container, 0)
    return 0


def _drop(ground: Ground) -> None:
    subprocess.run(["umount", "--lazy", ground.store], check=False, capture_output=True)
    shutil.rmtree(ground.store, ignore_errors=True)


_FIX = ("fix", "--level=shift")
_CHMOD = (("chmod u+s", PROGRAM, 25),)
_REFUSED = "others may write there"
_LISTED = (("link to a secret", LIST, NAMING), ("directory exchanged", PROGRAM, 300))
_SHARED = (("link to a secret", TWICE, GIVING), ("directory exchanged", PROGRAM, 300))
ROWS = {
    "stage": Row(
        "1 of 1 windows huge", ("stage", "--store", "{store}", "{program}"), "good", after=_drop, risks=_CHMOD
    ),
    "stage --fix": Row(
        "2 of 2 windows of the fixed file huge", ("stage", "--fix", "--store", "{store}", "{program}"), after=_drop
    ),
    "enable": Row("wrote ", kind="good", work=_enable),
    "oci-hook": Row("windows=1", kind="good", work=_hook, after=_drop),
    "enable --all": Row("windows held: ", kind="good", work=_hold),
    "fix": Row("0 -> 1 window", (*_FIX, "--in-place", "{program}"), leads=True),
    "fix of what confers privileges": Row(
        "0 -> 1 window",
        (*_FIX, "--in-place", "{program}"),
        before=_confers,
        leads=True,
        risks=(("write", PROGRAM, GIVING),),
    ),
    "fix -o": Row("0 -> 1 window", (*_FIX, "{program}", "-o", "{user}/new")),
    "fix -r": Row("3 files fixed", (*_FIX, "-r", "{user}"), targets=TARGETS, risks=_LISTED),
    "fix --undo": Row("restored", ("fix", "--undo", "{program}"), "fixed", leads=True),
    "fix -r --undo": Row(
        "3 files restored", ("fix", "-r", "--undo", "{user}"), "fixed", targets=TARGETS, risks=_SHARED
    ),
    "warm --replace": Row(
        "a copy", kind="good", work=_replace, leads=True, risks=(("directory exchanged", PROGRAM, 50),)
    ),
    "warm -r": Row("3 of 3 windows huge", ("warm", "-r", "{user}"), "good"),
    "status --undo": Row(
        "undone",
        ("status", "--undo", "{program}"),
        roots="fixed",
        before=_noted,
        risks=(("directory exchanged", PROGRAM, 60),),
    ),
    "compiled code": Row(_REFUSED, targets=(CODE,), work=_cached(_compiled), statuses=(3,)),
    "plugin build": Row(_REFUSED, targets=(CODE,), work=_cached(_plugin), statuses=(3,)),
    "status --undo of a cache": Row(_REFUSED, targets=(CODE,), work=_cached(_uncached), statuses=(3,)),
    "run --file": Row(
        "1 of 1 windows huge",
        ("run", "-v", "--how=stage", "--store", "{store}", "--file", "{program}", "--", "true"),
        "good",
        statuses=(0,),
    ),
}
#: fchmod, fchown, fsetxattr, linkat, renameat, renameat2, mount, move_mount, by processor.
_GIVING = {"x86_64": (91, 93, 190, 265, 264, 316, 165, 429), "aarch64": (52, 55, 7, 37, 38, 276, 40, 429)}


def exchanges(
    name: str, count: int = 0, acts: Sequence[str] = tuple(ACTS), *, short: bool = False
) -> tuple[Counter[str], list[str]]:
    """Stop the command *name* at each gap for each of *acts*, until *count* exchanges were made; *short*: its risks.

    A *count* of 0 stands for 2000, or as many as there are gaps.  Return how many acts were done, or why not, and what
    happened that must not.
    """
    _loaded()
    row, done, wrong = ROWS[name], Counter[str](), list[str]()
    with tempfile.TemporaryDirectory(prefix="hugealign-gaps-", dir="/var/tmp") as work:
        os.environ["XDG_STATE_HOME"] = f"{work}/state"
        ground = Ground(Path(work))
        other = Other(ground)
        try:
            alone = _once(ground, row, -1, lambda: "", wrong, name)
            if row.says not in alone.said or alone.status not in row.statuses:
                wrong.append(f"{name}: does not do what it should: {alone.said}")
            done["gaps"] = gaps = len(alone.calls)
            wanted = count or max(2000, gaps)
            every = itertools.islice(_moments(gaps, acts, row.targets), 3 * wanted)  # where some acts cannot be done
            moments = _risks(row, alone.calls) if short else every
            known = alone.begun + 2 * len(ground.user.parts) + 10 if row.leads else 0
            for at, act, target in moments:
                if at < known:
                    continue
                if not short and done["exchanges"] >= wanted:
                    break
                before, about = ground.state(), f"{name}, {act}, {target}, {at} of {gaps}"
                ran = _once(ground, row, at, functools.partial(other.does, act, target), wrong, about)
                done[act if ran.act == "done" else f"{act}: {ran.act}"] += 1
                done["exchanges"] += ran.act == "done"
                if (after := ground.state()) != before:
                    changed = sorted(path for path, info in after.items() if before.get(path) != info)
                    wrong.append(f"{about}: of root's changed {changed}")
        finally:
            other.close()
            row.after(ground)
    return done, wrong


def _moments(gaps: int, acts: Sequence[str], targets: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Yield each gap with each act, again and again, in an order in which any number of them are spread over all."""
    each = [(at, act, where) for at in range(gaps) for act in acts for where in targets]
    step = next(prime for prime in (7919, 6133, 5501, 1) if prime == 1 or len(each) % prime)
    yield from (each[number * step % len(each)] for number in itertools.count())


def _risks(row: Row, calls: Sequence[tuple[int, list[bytes]]]) -> Iterator[tuple[int, str, str]]:
    giving = _GIVING.get(os.uname().machine, ())
    for act, target, step in row.risks:
        for at, (call, paths) in enumerate(calls):
            if step == NAMING:
                chosen = any(os.fsencode(os.path.basename(target)) in path for path in paths)
            else:
                chosen = call in giving if step == GIVING else at % step == 0
            if chosen:
                yield at, act, target


def _once(ground: Ground, row: Row, at: int, act: Callable[[], str], wrong: list[str], about: str) -> Ran:
    ground.lay(row.kind, row.roots or row.kind)
    row.before(ground)
    ran = stopped(lambda: row.run(ground), os.fsencode(ground.user), at, act, ground.top / "output")
    if ran.status not in row.statuses or "Traceback" in ran.said:
        wrong.append(f"{about}: status {ran.status}: {ran.said[-600:]}")
    wrong += [f"{about}: {what}" for what in ground.wrong()]
    row.after(ground)
    return ran


@functools.cache
def _loaded() -> None:
    """Import all modules, whose files a command would otherwise look for between the calls that matter."""
    for module in pkgutil.walk_packages(hugealign.__path__, "hugealign."):
        if "__main__" not in module.name and "testing" not in module.name:
            importlib.import_module(module.name)
    hashlib.sha256(b"")


def main() -> int:
    """Run the rows that the command line names; return 1 if root gave something away."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--row", action="append", choices=ROWS, help="one of them (default: all)")
    parser.add_argument("--act", action="append", choices=ACTS, help="one of them (default: all)")
    parser.add_argument("--count", type=int, default=0, help="exchanges of each command (default: 2000, or its gaps)")
    parser.add_argument("--short", action="store_true", help="only at the gaps that are a risk")
    args = parser.parse_args()
    status = 0
    for name in args.row or ROWS:
        began = time.monotonic()
        done, wrong = exchanges(name, args.count, args.act or tuple(ACTS), short=args.short)
        print(
            f"{name}: {dict(done)}, {len(wrong)} findings, {time.monotonic() - began:.0f} s",
            *wrong[:5],
            sep="\n  ",
            flush=True,
        )
        status |= bool(wrong)
    return status


if __name__ == "__main__":
    sys.exit(main())
