"""Running cases: each in a child, held to its bounds by the kernel, and judged by how it ended."""

import contextlib
import gc
import importlib
import io
import math
import os
import pkgutil
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

import hugealign
from tests.fuzz import room
from tests.fuzz.kinds import KINDS, NAME, OUT, Case, Kind

MEMORY = 256 << 20  # bytes of addresses above those of the process that is forked
SECONDS = 5  # of processor time, and `Kind.rate` more
STDERR = 4096  # bytes
_HANG = 60.0  # seconds until a case counts as one that hangs


class Runner:
    """Runs cases, each in a child of this process, one after the other, in the directory *work*."""

    def __init__(self, work: Path) -> None:
        self._work = work / "work"
        self._temporary = work / "tmp"
        self._work.mkdir()
        self._temporary.mkdir()
        self._out, self._err = (os.memfd_create(name) for name in ("out", "err"))
        for module in pkgutil.walk_packages(hugealign.__path__, "hugealign."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
        for name in ("bz2", "lzma", "zlib", "json", "tempfile", "subprocess"):
            importlib.import_module(name)
        gc.freeze()
        status = Path("/proc/self/status").read_text()
        self._addresses = int(status.partition("VmSize:")[2].split()[0]) << 10
        self.slowest = 0.0
        self.together = False  # in a child: whether the temporary files are bounded together, not one by one only
        self.peak = 0  # bytes that a case needed above what this process has
        self._last = ""

    def run(self, cases: list[Case]) -> list[str]:
        """Return for each of *cases* what was wrong with the way in which it ended; empty if nothing was.

        They run in one child, as long as nothing is wrong; the one that something is wrong with runs in one of its own.
        """
        problems: list[str] = []
        while len(problems) < len(cases):
            done = self._try(cases[len(problems) :])
            problems += [""] * done
            if len(problems) < len(cases):
                item = cases[len(problems)]
                together = self._last
                problems.append(self._last if self._try([item]) == 0 else f"only after others: {together}")
        return problems

    def _try(self, cases: list[Case]) -> int:
        """Run *cases* in one child; return how many ended well until one did not, and put what is wrong in `_last`."""
        answers, theirs = os.pipe2(os.O_CLOEXEC)
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
        child = os.fork()
        if not child:
            self._child(cases, theirs)
        os.close(theirs)
        output = b""
        before = self._last = ""
        while True:
            if not select.select([answers], [], [], _HANG)[0]:
                before = "hangs"
                os.kill(child, signal.SIGKILL)
            data = os.read(answers, 1 << 16)
            if not data:
                break
            output += data
        os.close(answers)
        _, ended_as, used = os.wait4(child, 0)
        status = os.waitstatus_to_exitcode(ended_as)
        self.peak = max(self.peak, (used.ru_maxrss << 10) - resident)
        ended = output.decode().split("\n")[:-1]
        self.slowest = max([self.slowest, *(float(line.partition(" ")[0]) for line in ended)])
        wrong = next((at for at, line in enumerate(ended) if line.partition(" ")[2]), len(ended))
        if wrong < len(ended):
            self._last = ended[wrong].partition(" ")[2]
        elif wrong < len(cases):
            self._last = before or (f"ended by {signal.Signals(-status).name}" if status < 0 else f"died: {status}")
        self._clean({})
        return wrong

    def _clean(self, beside: dict[str, bytes]) -> list[str]:
        known = {NAME, *beside}
        left = [path for path in (*self._work.iterdir(), *self._temporary.iterdir()) if path.name not in known]
        for path in left:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return [path.name for path in left]

    def _child(self, cases: list[Case], answers: int) -> None:
        status = 70
        try:
            os.dup2(self._out, 1)
            os.dup2(self._err, 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.chdir(self._work)
            os.environ["TMPDIR"] = str(self._temporary)
            for number in (signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_AS, (self._addresses + MEMORY,) * 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with contextlib.suppress(OSError):
                room.bound(str(self._temporary), 1 << 20)
                self.together = True
            for case in cases:
                seconds, problem = self._one(case)
                os.write(answers, f"{seconds:.3f} {problem}\n".encode("ascii", "backslashreplace"))
                if problem:
                    break
            status = 0
        except BaseException as error:  # noqa: BLE001  # not of the command, whose errors are caught above
            os.write(answers, f"0 the harness failed: {error!r}\n".replace("\n", " ").encode() + b"\n")
        finally:
            os._exit(status)

    def _one(self, case: Case) -> tuple[float, str]:
        """Run *case* in this process; return its seconds of processor time and what is wrong."""
        kind = KINDS[case.kind]
        self._clean(kind.beside())  # what lay beside a case of another kind
        (self._work / NAME).write_bytes(case.data)
        for name, data in kind.beside().items():
            if not (self._work / name).exists():
                (self._work / name).write_bytes(data)
                (self._work / name).chmod(0o755)
        for fd in (self._out, self._err):
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
        sys.stdout, sys.stderr = (io.TextIOWrapper(open(fd, "wb", closefd=False), "utf-8") for fd in (1, 2))  # noqa: SIM115
        bound = SECONDS + kind.rate * len(case.data) / (1 << 20)
        began = _seconds()
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(began + bound) + 1, resource.RLIM_INFINITY))
        fixed, times = kind.temporary
        size = fixed + times * len(case.data)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        if self.together:
            room.resize(str(self._temporary), size)
        status = 1
        try:
            status = kind.run([NAME if word == "@" else word for word in case.command])
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except BaseException:  # noqa: BLE001  # whatever it is, it is what is looked for
            os.write(2, traceback.format_exc().encode("utf-8", "replace"))
        for stream in (sys.stdout, sys.stderr):  # as the interpreter does when it ends
            stream.flush()
        seconds = _seconds() - began
        problem = _verdict(kind, status, _said(self._out), _said(self._err))
        if not problem and seconds > bound:
            problem = f"more than {bound:.0f} s of processor time"
        left = self._clean(kind.beside())
        if not problem and left not in ([], [OUT] if status == 0 else []):
            problem = f"status {status} and leaves files behind"
        if not problem and (self._work / NAME).read_bytes() != case.data:
            problem = "changes the file"
        return seconds, problem


def _said(fd: int) -> bytes:
    """Return what is in the file; Python takes the memory for what is requested, whether it is there or not."""
    return os.pread(fd, min(os.fstat(fd).st_size, 64 << 20), 0)


def _seconds() -> float:
    """The processor time of this process and of its children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _verdict(kind: Kind, status: int, out: bytes, err: bytes) -> str:
    """Return what is wrong with the way in which a command of *kind* ended."""
    text = err.decode("utf-8", "replace")
    if "Traceback" in text:
        return f"traceback: {text.strip().splitlines()[-1][:200]}"
    if "No space left" in text or b"No space left" in out:
        return f"more than {kind.temporary[0] >> 20} MiB and {kind.temporary[1]} times the file of temporary files"
    if "not enough memory" in text:
        return f"more than {MEMORY >> 20} MiB of memory"
    if "hugealign failed" in text:  # a link goes on without us
        return f"caught: {text.strip().splitlines()[-1][-200:]}"
    if status not in kind.statuses:
        return f"status {status}"
    if status in kind.silent and out:
        return f"status {status} and something on standard output"
    if len(err) > STDERR:
        return f"{len(err)} bytes on stderr"
    for stream, output in (("stdout", out.decode("utf-8", "replace")), ("stderr", text)):
        if not all(line.isprintable() for line in output.split("\n")):
            return f"{stream} is not printable"
    return ""


def smaller(runner: Runner, broken: Case, problem: str, tries: int = 400, until: float = math.inf) -> Case:
    """Return the smallest case that ends with the same *problem*, found by leaving out pieces."""
    data = broken.data
    piece = len(data) // 2
    while piece and tries > 0:
        at = 0
        while at < len(data) and tries > 0 and time.monotonic() < until:
            shorter = data[:at] + data[at + piece :]
            tries -= 1
            if runner.run([Case(broken.kind, broken.command, shorter)]) == [problem]:
                data = shorter
            else:
                at += piece
        piece //= 2
    return Case(broken.kind, broken.command, data)
