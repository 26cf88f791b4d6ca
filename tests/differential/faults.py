"""System calls that fail: ``python -m tests.differential.faults --command run --count 500 --seed 1``.

Each case runs a whole command under strace, which makes one of its system calls fail with an error that this call can
have.  The calls by which the interpreter loads its modules are left out.  The command must then end as documented: with
one of its statuses, at most a few lines and no traceback, no hang, and each file as before or whole; what `run` was to
start has run.  Status 1 if one does not.  Needs strace and a C compiler, and root for some commands.
"""

import argparse
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.strace import ERRORS, faulty

ROOT = Path(__file__).parents[2]
_PATIENCE = 60.0  # seconds until a command counts as hung
_LINES = 4  # on standard error
_PROGRAM = """\
#include <stdio.h>
__asm__(".pushsection .text.z,\\"ax\\",@progbits; .skip 5 << 20, 0x90; .popsection");
int f(int x) { return x; }
int main(void) { return f(puts("ran") < 0); }
"""

#: What only the interpreter does with its own files.
_LOADING = re.compile(
    r"/lib/python|\.pyc?\b|\.so\b|\.so\.|ld\.so|/usr/lib/locale|pyvenv"
    rf"|\"{re.escape(str(ROOT))}\"|{re.escape(str(ROOT))}/hugealign"
)
_CALL = re.compile(r"(\d+) +([a-z0-9_]+)\((.*)")


@dataclass(frozen=True)
class Command:
    """A command: its *words*, with the placeholders of `Work`; its *statuses*; *out*: the file that it writes.

    *says* is what standard output must contain whatever fails.
    """

    words: tuple[str, ...]
    statuses: tuple[int, ...] = (0, 1, 3)
    out: str = ""
    says: str = ""
    root: bool = False


COMMANDS = {
    "verify": Command(("verify", "--config=/dev/null", "{program}")),
    "verify-tree": Command(("verify", "--config=/dev/null", "-r", "{tree}")),
    "explain": Command(("explain", "HA001")),
    "fix": Command(("fix", "{small}", "-o", "{out}"), out="{out}"),
    "fix-in-place": Command(("fix", "--in-place", "{copy}"), out="{copy}"),
    "warm": Command(("warm", "{program}")),
    "warm-replace": Command(("warm", "--replace", "{copy}"), out="{copy}"),
    "warm-undo": Command(("warm", "--undo", "{program}")),
    "run": Command(("run", "--", "{program}"), (0,), says="ran"),
    "run-stage": Command(("run", "--how=stage", "--", "{program}"), (0,), says="ran", root=True),
    "run-copy": Command(("run", "--how=copy", "--", "{program}"), (0,), says="ran"),
    "ps": Command(("ps", "{pid}")),
    "top": Command(("top",)),
    "doctor": Command(("doctor", "{tree}")),
    "order": Command(("order", "{profile}", "-b", "{program}", "--cpu", "zen3", "-o", "{out}"), out="{out}"),
    "status": Command(("status",), (0, 3)),
    "stage": Command(("stage", "--store", "{store}", "{program}"), root=True),
}


class Work:
    """The files that the commands work on, below *top*."""

    def __init__(self, top: Path) -> None:
        self.top = top
        top.chmod(0o755)  # `stage` refuses what not everyone may reach
        (top / "program.c").write_text(_PROGRAM)
        for name, words in (
            ("program", ("-Wl,-z,max-page-size=0x200000,-z,separate-code",)),
            ("small", ("-Wl,-z,max-page-size=0x1000",)),
        ):
            subprocess.run(["gcc", "-O1", "-o", top / name, top / "program.c", *words], check=True)
        (top / "tree").mkdir()
        for name in ("program", "small"):
            shutil.copy(top / name, top / "tree")
        (top / "profile").write_text("main;f 1000\nmain 500\n")
        self.sleeper = subprocess.Popen(["sleep", "1000"])

    def close(self) -> None:
        """End what runs."""
        self.sleeper.kill()
        self.sleeper.wait()
        subprocess.run(["umount", "--lazy", self.top / "store"], check=False, capture_output=True)

    def reset(self) -> None:
        """Put the files that commands write into their first state."""
        shutil.copy(self.top / "small", self.top / "copy")
        (self.top / "out").unlink(missing_ok=True)
        subprocess.run(["umount", "--lazy", self.top / "store"], check=False, capture_output=True)

    def words(self, words: Sequence[str]) -> list[str]:
        """Return *words* with names instead of placeholders."""
        names = {path: str(self.top / path) for path in ("program", "small", "copy", "out", "tree", "profile", "store")}
        return [word.format(pid=self.sleeper.pid, **names) for word in words]

    def digest(self, name: str) -> str:
        """Return a sum of the file that the placeholder *name* means; empty if it is not there."""
        (path,) = self.words([name])
        return hashlib.sha256(Path(path).read_bytes()).hexdigest() if os.path.exists(path) else ""


@dataclass(frozen=True)
class Fault:
    """The *number*-th *call* of a process, from 1, fails with *error*."""

    call: str
    number: int
    error: str

    def __str__(self) -> str:
        return f"{self.call} {self.number} fails with {self.error}"


def faults(name: str, count: int, seed: int) -> list[str]:
    """Run the command *name* with *count* faults, or with all if there are not so many; return what went wrong."""
    command = COMMANDS[name]
    result = []
    with tempfile.TemporaryDirectory(prefix="hugealign-faults-", dir="/var/tmp") as top:
        work = Work(Path(top))
        try:
            work.reset()
            before = work.digest(command.out)
            cases = list(_cases(work, command))
            after = work.digest(command.out)
            random.Random(seed).shuffle(cases)
            for fault in cases[:count]:
                work.reset()
                if problem := _problem(work, command, fault, (before, after)):
                    result.append(f"{name}: {fault}: {problem}")
        finally:
            work.close()
    return result


def _run(work: Work, command: Command, *prefix: str) -> "subprocess.CompletedProcess[str]":
    words = [*prefix, sys.executable, "-m", "hugealign", *work.words(command.words)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        words, cwd=work.top, env=env, capture_output=True, text=True, check=False, timeout=_PATIENCE, errors="replace"
    )


def _cases(work: Work, command: Command) -> Iterator[Fault]:
    """Yield a fault for each call of the command's first process up to its end, or until it becomes another program."""
    trace = work.top / "trace"
    done = _run(work, command, "strace", "-f", "-y", "-o", str(trace))
    if done.returncode not in command.statuses or done.returncode == 3:
        raise AssertionError(f"{command.words}: fails without a fault: {done.stderr}")
    lines = [match for line in trace.read_text(errors="replace").splitlines() if (match := _CALL.match(line))]
    # strace counts the calls of each process on their own, so those of children are out of reach.
    first = [match for match in lines if match[1] == lines[0][1]]
    numbers: Counter[str] = Counter()
    started = False
    for call, rest in ((match[2], match[3]) for match in first):
        numbers[call] += 1
        started = started or "hugealign/cli" in rest
        if started and call == "execve":
            return
        if started and call in ERRORS and not _LOADING.search(rest):
            for error in ERRORS[call]:
                yield Fault(call, numbers[call], error)


def _problem(work: Work, command: Command, fault: Fault, contents: tuple[str, str]) -> str:
    """Return what is wrong with the outcome of the command with *fault*; empty if nothing is."""
    prefix = faulty(fault.call, f"error={fault.error}:when={fault.number}", work.top / "trace")
    try:
        done = _run(work, command, *prefix)
    except subprocess.TimeoutExpired:
        return "it hangs"
    if "Traceback" in done.stderr:
        last = done.stderr.strip().splitlines()
        where = [line.strip() for line in last if line.strip().startswith("File")][-1:]
        return f"a traceback: {last[-1]} {where}"
    if done.returncode not in (*command.statuses, *((141,) if fault.error == "EPIPE" else ())):  # as by SIGPIPE
        return f"status {done.returncode}: {done.stderr.strip()[:200]}"
    if done.stderr.count("\n") > _LINES:
        return f"{done.stderr.count(chr(10))} lines: {done.stderr[:200]}"
    if done.returncode == 3 and not done.stderr and not done.stdout and fault.call != "write":
        return "status 3, and no word"
    if command.says not in done.stdout:
        return f"its command did not run: {done.stderr.strip()[:200]}"
    if command.out and work.digest(command.out) not in contents:
        return "a file is neither as before nor whole"
    return ""


def main() -> int:
    """Inject the faults that the command line requests; return 1 if one was not handled."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--command", action="append", choices=COMMANDS, help="one of them (default: all)")
    parser.add_argument("--count", type=int, default=1 << 30, help="faults for each command (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    status = 0
    for name in args.command or COMMANDS:
        began = time.monotonic()
        result = faults(name, args.count, args.seed)
        print(f"{name}: {len(result)} findings, {time.monotonic() - began:.0f} s", *result, sep="\n  ", flush=True)
        status |= bool(result)
    return status


if __name__ == "__main__":
    sys.exit(main())
