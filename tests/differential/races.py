"""Commands of root against a user who exchanges names meanwhile: ``python -m tests.differential.races --count 2000``.

An ordinary user owns a directory on the way to a program, and exchanges one component of the path with a link to a
place of root's, as fast as the kernel can.  Root's commands work on the path all the time.  Whatever they see, no
program of root's may get out, no file may be covered by a copy of another one, nothing that was renamed to a name may
be lost, and a pipe is never opened.  Status 1 if something of that happened.  Needs root, a C compiler, and a file
system with RENAME_EXCHANGE.  The kernel decides the moments; the seed only decides how long the package manager waits.
"""

import argparse
import contextlib
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from hugealign.errors import HugealignError
from hugealign.io import places, replacing
from hugealign.io.descriptors import using
from hugealign.io.regular import opened
from hugealign.run import copies, launch, store
from hugealign.services import oci
from hugealign.system import kernel, namespace

USER = 65534
_SECRET, _OPEN = b"root's alone, nobody else's", b"anybody's to read, as it is"
_EXCHANGE = """\
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **word) {
    if (count != 3 || setgid(65534) || setuid(65534) || write(1, "\\n", 1) != 1) return 1;
    for (;;) syscall(SYS_renameat2, AT_FDCWD, word[1], AT_FDCWD, word[2], 2);
}
"""
_PROGRAM = """\
__asm__(".pushsection .text.z,\\"ax\\",@progbits; .skip 5 << 20, 0x90; .popsection");
int main(void) { return 0; }
"""


class Ground:
    """The directories: *user*/a/program of an ordinary user, and *root*/a/program, of a directory that is closed."""

    def __init__(self, top: Path) -> None:
        self.top, self.store = top, top / "store"
        self.user, self.root = top / "user", top / "root"
        top.chmod(0o755)
        self._compile("exchange", _EXCHANGE)
        self._compile("program", _PROGRAM, "-Wl,-z,max-page-size=0x200000,-z,separate-code")
        for place, mark in ((self.user, _OPEN), (self.root, _SECRET)):
            (place / "a").mkdir(parents=True)
            self._program(place / "a" / "program", mark)
        self.root.chmod(0o700)
        (self.user / "link-a").symlink_to(self.root / "a")
        (self.user / "a" / "link-program").symlink_to(self.root / "a" / "program")
        os.mkfifo(self.user / "a" / "pipe", 0o666)
        for place in (self.user, *self.user.rglob("*")):
            os.chown(place, USER, USER, follow_symlinks=False)
        self.program = self.user / "a" / "program"
        self.secret = os.stat(self.root / "a" / "program")

    #: The pairs of names below *user* that are exchanged.
    components = (("a", "link-a"), ("a/program", "a/link-program"))

    def _compile(self, name: str, text: str, *words: str) -> None:
        source = self.top / f"{name}.c"
        source.write_text(text)
        subprocess.run(["gcc", "-O1", "-o", self.top / name, source, *words], check=True)

    def _program(self, path: Path, mark: bytes) -> None:
        path.write_bytes((self.top / "program").read_bytes() + mark)
        path.chmod(0o755)
        os.sync()

    @contextlib.contextmanager
    def exchanging(self, one: str, other: str) -> Iterator[None]:
        """Exchange two names below *user*, as its owner, while the block runs."""
        words = [self.top / "exchange", self.user / one, self.user / other]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as child:
            try:
                assert child.stdout
                child.stdout.readline()
                yield
            finally:
                child.kill()


def stage(ground: Ground, count: int, _: random.Random) -> Iterator[str]:
    """Copies that everybody may read."""
    for one, other in ground.components:
        with ground.exchanging(one, other):
            for _number in range(count):
                with contextlib.suppress(HugealignError):
                    store.stage(str(ground.program), str(ground.store))
                if _holds_secret(ground):
                    yield f"stage, {one} exchanged: anybody could read root's program"
                with contextlib.suppress(HugealignError):
                    store.drop((), str(ground.store))


def hook(ground: Ground, count: int, _: random.Random) -> Iterator[str]:
    """Copies for containers whose root file system the user writes to."""
    place = str(ground.top / "containers")
    for one, other in ground.components:
        with ground.exchanging(one, other):
            for _number in range(count):
                with _container() as pid:
                    wanted = oci.Container(pid, str(ground.user), programs=("/a/program",))
                    list(oci.bind(wanted, place))
                    if wrong := _misplaced(ground, pid):
                        yield f"oci-hook, {one} exchanged: {wrong}"
                if _holds_secret(ground, place):
                    yield f"oci-hook, {one} exchanged: it staged a program of the host"
                with contextlib.suppress(HugealignError):
                    store.drop((), place)


def run(ground: Ground, count: int, _: random.Random) -> Iterator[str]:
    """Copies that are mounted over the program."""
    options = launch.LaunchOptions(launch.STAGE, place=str(ground.top / "none"))
    for one, other in ground.components:
        with ground.exchanging(one, other):
            for _number in range(count):
                with _child(lambda: launch.prepare(str(ground.program), options)) as pid:
                    if wrong := _misplaced(ground, pid):
                        yield f"run, {one} exchanged: {wrong}"


def replace(ground: Ground, count: int, _: random.Random) -> Iterator[str]:
    """Copies that take the place of the file."""
    files = (ground.program, ground.root / "a" / "program")
    for one, other in ground.components:
        with ground.exchanging(one, other):
            for _number in range(count):
                with contextlib.suppress(HugealignError):
                    replacing.replace(str(ground.program), lambda _: True)
        for path, mark in zip(files, (_OPEN, _SECRET), strict=True):
            if not _place(path).read_bytes().endswith(mark):
                yield f"replace, {one} exchanged: {path} has the contents of another file"


def upgrade(ground: Ground, count: int, generator: random.Random) -> Iterator[str]:
    """A package manager that renames a new file to the name."""
    path, fresh = ground.top / "upgraded", ground.top / "upgraded.dpkg-new"
    path.write_bytes(bytes(100))
    reading, writing = os.pipe()
    done, reported = os.pipe()
    child = os.fork()
    if not child:
        with contextlib.suppress(OSError):
            os.close(writing)
            while data := os.read(reading, 8):
                fresh.write_bytes(data)
                fresh.rename(path)
                os.write(reported, data)
        os._exit(0)
    try:
        for number in range(count):
            content = number.to_bytes(8, "big")
            os.write(writing, content)
            time.sleep(generator.uniform(0, 3e-4))
            with contextlib.suppress(HugealignError):
                replacing.replace(str(path), lambda _: True)
            os.read(done, 8)
            if path.read_bytes() != content:
                yield f"upgrade {number} was lost"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for fd in (reading, writing, done, reported):
            os.close(fd)


def pipe(ground: Ground, count: int, generator: random.Random) -> Iterator[str]:
    """A pipe in the place of the file: a process that waits for a reader goes on waiting."""
    place = os.open(ground.user / "a" / "pipe", os.O_PATH)
    reading, writing = os.pipe()
    writer = os.fork()
    if not writer:
        os.write(writing, b".")
        os.open(f"/proc/self/fd/{place}", os.O_WRONLY)
        os.write(writing, b".")
        os._exit(0)
    try:
        os.read(reading, 1)
        while Path(f"/proc/{writer}/stat").read_text().split()[2] != "S":
            time.sleep(0.01)
        with ground.exchanging("a/program", "a/pipe"):
            for _number in range(count):
                time.sleep(generator.uniform(0, 3e-4))  # else all of it is over before the other process has its turn
                with contextlib.suppress(HugealignError), opened(str(ground.program)):
                    pass
        if select.select([reading], [], [], 2)[0]:
            yield "somebody opened the pipe for reading"
    finally:
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        for fd in (place, reading, writing):
            os.close(fd)


RACES: dict[str, Callable[[Ground, int, random.Random], Iterator[str]]] = {
    "stage": stage, "hook": hook, "run": run, "replace": replace, "upgrade": upgrade, "pipe": pipe,
}  # fmt: skip


def races(names: list[str], count: int, seed: int) -> list[str]:
    """Run the races *names*, *count* tries for each component, and return what happened that must not."""
    result: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hugealign-races-", dir="/var/tmp") as top:
        for name in names:
            with tempfile.TemporaryDirectory(dir=top) as work:
                try:
                    result += RACES[name](Ground(_reachable(Path(work))), count, random.Random(seed))
                finally:
                    _unmount(Path(work))
    return result


def _reachable(work: Path) -> Path:
    for place in (work.parent, work):
        place.chmod(0o755)
    return work


def _unmount(work: Path) -> None:
    for place in ("store", "containers"):
        subprocess.run(["umount", "--lazy", work / place], check=False, capture_output=True)


def _holds_secret(ground: Ground, place: str = "") -> bool:
    names = (copies.identity(ground.secret, fixed) for fixed in (False, True))
    return any(os.path.exists(os.path.join(place or ground.store, name)) for name in names)


def _misplaced(ground: Ground, pid: int) -> str:
    """Return which file the process sees covered by a copy of another one; empty if none is."""
    with using(os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY)) as root:
        for path, mark in ((ground.user / "a" / "program", _OPEN), (ground.root / "a" / "program", _SECRET)):
            # Without links on the way: names are still being exchanged.
            with (
                contextlib.suppress(HugealignError, OSError),
                using(places.beneath(root, str(path)[1:], os.O_PATH)) as file,
            ):
                content = Path(f"/proc/self/fd/{file}").read_bytes()
                if not content.endswith(mark) and content.endswith((_OPEN, _SECRET)):
                    return f"{path} is covered by a copy of another file"
    return ""


def _place(path: Path) -> Path:
    """Return where the file of *path* is, whether or not the exchange ended with its names exchanged."""
    names = (path, path.parent / "link-program", path.parent.parent / "link-a" / "program")
    return next(name for name in names if name.is_file() and not name.is_symlink() and not name.parent.is_symlink())


@contextlib.contextmanager
def _container() -> Iterator[int]:
    """Yield the PID of a process with a mount namespace of its own."""
    with _child(namespace.enter) as pid:
        yield pid


@contextlib.contextmanager
def _child(work: Callable[[], object]) -> Iterator[int]:
    """Yield the PID of a child that has done *work*, whatever came of it, and lives as long as the block."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        with contextlib.suppress(Exception):
            work()
        os.write(writing, b".")
        signal.pause()
    try:
        os.read(reading, 1)
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reading)
        os.close(writing)


def main() -> int:
    """Run the races that the command line names; return 1 if one was lost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--race", action="append", choices=RACES, help="one of them (default: all)")
    parser.add_argument("--count", type=int, default=2000, help="tries for each component of the path")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    kernel.huge_page_size()
    status = 0
    for name in args.race or RACES:
        began = time.monotonic()
        result = races([name], args.count, args.seed)
        outcome = f"{name}: {len(result)} findings, {time.monotonic() - began:.0f} s"
        print(outcome, *result[:3], sep="\n  ", flush=True)
        status |= bool(result)
    return status


if __name__ == "__main__":
    sys.exit(main())
