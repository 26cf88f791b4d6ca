"""Each diagnosis of a process: made, looked for, its remedy taken as it is named, and gone, as many windows huge."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hugealign.process import starts
from tests.live.programs import NO_THP, ROOT, WINDOW, Programs, chill, hugealign, running
from tests.live.test_ps_own_text import SOURCE, TEXT
from tests.live.test_trees import linked
from tests.strace import faulty
from tests.support import need

#: Touches the text while huge pages are disabled for it, and allows them afterwards.
_DISABLING = """\
#include <sys/prctl.h>
#include <unistd.h>
extern const volatile char walk[] __attribute__((visibility("hidden")));
int main(int argc, char **argv) {
  prctl(PR_SET_THP_DISABLE, argc > 2, 0, 0, 0);
  for (long at = 0; at < 5 << 20; at += 4096) (void)walk[at];
  prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
  if (write(1, "ready\\n", 6) == 6) pause();
}
"""

#: Words that start a program, and what happens to the process before anybody asks.
Situation = tuple[Sequence[str | Path], Callable[[int], object]]


def nothing(_: int) -> None:
    """Leave the process as it is."""


@pytest.fixture
def place(programs: Programs, request: pytest.FixtureRequest) -> Iterator[Path]:
    directory = programs.directory / f"d{abs(hash(request.node.name)) % 10**6}"
    directory.mkdir()
    yield directory
    shutil.rmtree(directory)


def copied(programs: Programs, place: Path, name: str, *, warm: bool = False) -> Path:
    path = place / name
    shutil.copy(programs.directory / name, path)
    chill(path)
    if warm:
        assert hugealign("warm", path).returncode == 0
    return path


def small(programs: Programs, place: Path) -> Situation:
    return (copied(programs, place, "good"), "5"), nothing


def small_and_fixable(programs: Programs, place: Path) -> Situation:
    return (copied(programs, place, "fixed"), "5"), nothing


def unaligned(programs: Programs, place: Path) -> Situation:
    return ("setarch", "-R", copied(programs, place, "plain"), "5"), nothing


def replaced(programs: Programs, place: Path) -> Situation:
    path = copied(programs, place, "good")

    def replace(_: int) -> None:
        shutil.copy(programs.good, place / "upgrade")
        (place / "upgrade").replace(path)
        hugealign("warm", path)

    return (path, "5"), replace


def written(programs: Programs, place: Path) -> Situation:
    path = copied(programs, place, "good", warm=True)

    def write(pid: int) -> None:
        maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
        start = next(int(line.split("-")[0], 16) for line in maps if str(path) in line and " r-xp " in line)
        with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
            memory.seek(start + WINDOW)  # as gdb sets a breakpoint; the byte is in text that never runs
            memory.write(b"\xcc")

    return (path, "5"), write


def disabled(programs: Programs, place: Path) -> Situation:
    return (*NO_THP, copied(programs, place, "good", warm=True), "5"), nothing


def mapped_small(programs: Programs, place: Path) -> Situation:
    (programs.directory / "disabling.c").write_text(_DISABLING, encoding="ascii")
    command = "gcc -fuse-ld=bfd -o disabling disabling.c text.o pad.o -Wl,-T,pad.ld -Wl,-z,max-page-size=0x200000"
    subprocess.run([*command.split(), "-Wl,-z,separate-code"], cwd=programs.directory, check=True)
    return (copied(programs, place, "disabling", warm=True), "5", "disable"), nothing


def text_copied(_: Programs, place: Path) -> Situation:
    # PR_SET_THP_DISABLE while it copies, not advice against huge pages, which would stay.
    source = SOURCE.replace("madvise(to, size, c > 2 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE)", "prctl(41, 1, 0, 0, 0)")
    source = source.replace("mprotect(to", "prctl(41, 0, 0, 0, 0); mprotect(to").replace('"x", 1)', '"ready\\n", 6)')
    source = source.replace("#include <unistd.h>", "#include <sys/prctl.h>\n#include <unistd.h>")
    (place / "main.c").write_text(source, encoding="ascii")
    (place / "text.s").write_text(TEXT, encoding="ascii")
    words = ("-pie", "-fPIE", "-Wl,-z,max-page-size=0x200000", place / "main.c", place / "text.s", "-o", place / "own")
    subprocess.run(["gcc", *words], check=True)
    hugealign("warm", place / "own")
    return (place / "own", "2"), nothing


def arena(_: Programs, place: Path) -> Situation:
    subprocess.run(["gcc", "-O2", "-o", place / "arena", ROOT / "tests" / "live" / "arena.c"], check=True)
    os.mkfifo(place / "orders")
    return ("sh", "-c", f"exec {place}/arena 2 1 <>{place}/orders"), nothing


def partly_touched(programs: Programs, place: Path) -> Situation:
    return (copied(programs, place, "good", warm=True), "1"), nothing


def too_small(_: Programs, __: Path) -> Situation:
    return (shutil.which("env") or "", "sh", "-c", "echo ready; exec sleep 60"), nothing


def from_a_copy(how: str, programs: Programs, place: Path) -> Sequence[str | Path]:
    """Words that start a program from a copy of a file that itself would be in small pages."""
    return ROOT / "bin/hugealign", "run", f"--how={how}", "--", copied(programs, place, "good"), "5"


def outdated(programs: Programs, place: Path) -> Situation:
    def change(_: int) -> None:  # in place: only the copy is executed, so no ETXTBSY keeps anybody from it
        with (place / "good").open("ab") as file:
            file.write(b"more")

    return from_a_copy("stage", programs, place), change


def split_copy(programs: Programs, place: Path) -> Situation:
    def split(pid: int) -> None:
        assert hugealign("adapt", "--undo", str(pid)).returncode == 0

    return from_a_copy("copy", programs, place), split


#: Unmaps its text, and goes on in memory without a file: munmap(rdi, rsi), write(1, r8, 6), pause().
_LEAVING = """\
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
static const char code[] = "\\xb8\\x0b\\0\\0\\0\\x0f\\x05\\xb8\\1\\0\\0\\0"
                           "\\xbf\\1\\0\\0\\0\\x4c\\x89\\xc6\\xba\\6\\0\\0\\0\\x0f\\x05"
                           "\\xb8\\x22\\0\\0\\0\\x0f\\x05\\xeb\\xf7";
int main(int argc, char **argv) {
  unsigned long start, end;
  char line[4096], *room = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(room, code, sizeof code);
  FILE *maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps))
    if (strstr(line, " r-xp ") && sscanf(line, "%lx-%lx", &start, &end) == 2) break;
  ((void (*)(unsigned long, unsigned long, long, long, const char *))room)(start, end - start, 0, 0, "ready\\n");
}
"""


def forbidding(programs: Programs, place: Path) -> Situation:
    """The program requests small pages in its code."""
    words, _ = arena(programs, place)

    def forbid(pid: int) -> None:
        (place / "orders").write_text("forbid\n", encoding="ascii")
        while " nh" not in Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8"):
            time.sleep(0.01)

    return words, forbid


def leaving(_: Programs, place: Path) -> Situation:
    if os.uname().machine != "x86_64":
        pytest.skip("the code is of x86-64")
    (place / "leaving.c").write_text(_LEAVING, encoding="ascii")
    subprocess.run(["gcc", "-O1", "-w", place / "leaving.c", "-o", place / "leaving"], check=True)
    return (place / "leaving",), nothing


def unreachable(programs: Programs, place: Path) -> Situation:
    """The file is on a mount that no path leads to any more."""
    if os.geteuid():
        pytest.skip("root mounts")
    script = (
        f"mount -t tmpfs none {place} && cp {programs.good} {place}/good && cd {place} && umount -l . && exec ./good 5"
    )
    return ("unshare", "-m", "sh", "-ec", script), nothing


#: Copies a library, as a program in one file unpacks those that it brought along, and opens it.
_UNPACKS = """\
import ctypes, os, shutil, signal, sys
shutil.copy(*sys.argv[1:3])
ctypes.CDLL(sys.argv[2]).touch()
for path in sys.argv[3:]:
    os.unlink(path)
print("ready", flush=True)
signal.pause()
"""


def unpacking(_: Programs, place: Path) -> Situation:
    library = linked(place)[1]
    return (sys.executable, "-c", _UNPACKS, str(library), str(place / "unpacked.so")), nothing


def unpacking_and_deleting(_: Programs, place: Path) -> Situation:
    if os.geteuid():
        pytest.skip("root may look at a file without a name")
    unpacked = str(place / "unpacked.so")
    return (sys.executable, "-c", _UNPACKS, str(linked(place)[1]), unpacked, unpacked), nothing


#: Starts the program that it unpacks under its own name, as Nuitka's --onefile does.
_LAUNCHES = """\
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
  char own[4096] = "";
  int from = open(argv[2], O_RDONLY), to = open(argv[3], O_WRONLY | O_CREAT, 0700);
  while (sendfile(to, from, NULL, 1 << 20) > 0);
  close(to);
  if (readlink("/proc/self/exe", own, sizeof own - 1) < 0) return 1;
  argv[0] = own;
  if (vfork()) return wait(NULL) < 0;
  execv(argv[3], argv);
}
"""


def cached(programs: Programs, place: Path) -> Situation:
    """As the addon that @swc/core unpacks; without a window of its own, it has no use for a copy."""
    plain = copied(programs, place, "plain")
    return ("setarch", "-R", plain.rename(place / hashlib.sha512(plain.read_bytes()).hexdigest()), "5"), nothing


def in_pieces(_: Programs, place: Path) -> Situation:
    """Code of LuaJIT, as the name says, in mappings that hold no whole window."""
    (place / "main.c").write_text(
        "#include <sys/mman.h>\n#include <unistd.h>\nint main(void) { for (int i = 0; i < 3; i++) {\n"
        "char *at = mmap((void *)(0x7e00001ff000 + i * 0x800000L), 2 << 20, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n"
        'for (long j = 0; j < 2 << 20; j += 4096) at[j] = 1; }\nwrite(1, "ready\\n", 6); pause(); }\n'
    )
    subprocess.run(["gcc", "-w", place / "main.c", "-o", place / "luajit-2.1"], check=True)
    return (place / "luajit-2.1",), nothing


def process(pid: int, *options: str, prefix: tuple[str, ...] = ()) -> dict[str, Any]:
    (result,) = json.loads(hugealign("ps", "--json", *options, str(pid), prefix=prefix).stdout)["processes"]
    return dict(result)


def diagnosis(pid: int, code: str) -> dict[str, Any] | None:
    return next((item for item in process(pid, "--all")["diagnoses"] if item["code"] == code), None)


@contextmanager
def started(*words: str | Path) -> Iterator[int]:
    """Start what was named, as a person types it."""
    path = f"PATH={ROOT / 'bin'}:{os.environ['PATH']}"
    with running("env", path, *words) as child:
        yield child.pid


#: The code, the situation, and the kind of the remedy; None if nothing can be done.
ROWS = [
    ("cache.small-pages", small, "start"),
    ("cache.small-pages", small_and_fixable, "start"),
    ("text.no-window", unaligned, "start"),
    ("file.replaced", replaced, "restart"),
    ("process.text-written", written, "restart"),
    ("process.mapped-small", mapped_small, "restart"),
    ("process.thp-disabled", disabled, "start"),
    ("process.text-copied", text_copied, "run"),
    ("runtime.small-pages", arena, "run"),
    ("copy.outdated", outdated, "restart"),
    ("copy.in-memory", split_copy, "restart"),
    ("process.not-touched", partly_touched, None),
    ("text.small", too_small, None),
    ("program.small-pages", forbidding, None),
    ("file.out-of-reach", unreachable, None),
    ("file.unpacked", unpacking, None),
    ("file.unpacked", unpacking_and_deleting, None),
    ("file.cached", cached, None),
    ("runtime.no-window", in_pieces, "set-option"),
]


@pytest.mark.parametrize(("code", "situation", "kind"), ROWS)
def test_remedy_that_is_named_helps(
    programs: Programs,
    place: Path,
    code: str,
    situation: Callable[[Programs, Path], Situation],
    kind: str | None,
) -> None:
    words, happens = situation(programs, place)
    own = [word for word in words if isinstance(word, Path)]
    arguments = words[words.index(own[-1]) + 1 :] if own else ()
    with running(*words) as child:
        happens(child.pid)
        before = process(child.pid, "--all")["diagnoses"]
        remedy = next(item for item in before if item["code"] == code)["remedy"]
        assert (remedy["kind"] if remedy else None) == kind
        if kind == "run":
            assert os.geteuid() or not remedy["needs"]
            done = hugealign(*remedy["argv"][1:])
            assert remedy["argv"][0] == "hugealign"
            if "cannot" in done.stderr:
                pytest.skip(done.stderr)
            after = process(child.pid, "--all")
            assert after["windows_huge"] > 0
            assert code not in [item["code"] for item in after["diagnoses"]]
            return
    if not remedy or kind == "set-option":  # what stands for LuaJIT has no options
        assert not (remedy and remedy["argv"])
        return
    repeated: AbstractContextManager[int] = started(*[word for word in words if word != "disable"])
    if kind == "start":
        assert remedy["needs"] == "arguments"
        repeated = started(*remedy["argv"], *arguments)
    with repeated as pid:
        assert process(pid, "--all")["diagnoses"] == []
        after = process(pid)  # the command may be also for libraries; what is promised is of the program
    assert remedy["after"] in (None, after["windows_huge"])


#: Copies a file, and starts itself again with the same words, as a program in one file does.
_AGAIN = """\
import os, shutil, signal, subprocess, sys
if "AGAIN" not in os.environ:
    shutil.copy(*sys.argv[1:])
    subprocess.run(sys.orig_argv, env={"AGAIN": ""})
print("ready", flush=True)
signal.pause()
"""


def test_what_a_parent_with_the_same_words_unpacked(tmp_path: Path) -> None:
    packed, unpacked = tmp_path / "packed", tmp_path / "unpacked"
    packed.touch()
    with running(sys.executable, "-c", _AGAIN, packed, unpacked) as parent:
        (child,) = map(int, Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split())
        result = [starts.unpacked(pid, str(path)) for pid in (parent.pid, child) for path in (packed, unpacked)]
        os.kill(child, signal.SIGKILL)
    assert result == [False, True] * 2


@pytest.mark.parametrize(("old", "code"), [(False, "file.unpacked"), (True, "cache.small-pages")])
def test_a_program_that_its_launcher_unpacked(programs: Programs, place: Path, old: bool, code: str) -> None:
    """If it was there before, as in a cache, its next start executes it again."""
    (place / "launcher.c").write_text(_LAUNCHES, encoding="ascii")
    subprocess.run(["gcc", "-O1", place / "launcher.c", "-o", place / "launcher"], check=True)
    good = copied(programs, place, "good")
    if old:
        shutil.copy(good, place / "unpacked")
        time.sleep(0.1)
    with subprocess.Popen([place / "launcher", "5", good, place / "unpacked"], stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout
        assert launcher.stdout.readline() == b"ready\n"
        (child,) = map(int, Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split())
        try:
            (results,) = process(child)["diagnoses"]
        finally:
            os.kill(child, signal.SIGKILL)
    assert (results["code"], bool(results["remedy"])) == (code, code != "file.unpacked")


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("sticky", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_what_a_program_has_unpacked_is_not_fixed(
    programs: Programs, place: Path, named: bool, sticky: bool, private: bool
) -> None:
    """Its own windows become huge: an equal copy passes the program's check."""
    contents = (programs.directory / "fixed").read_bytes()
    digest = hashlib.sha256(contents).hexdigest()
    path = place / f"v1-{digest[not named :]}.so"
    path.write_bytes(contents)
    path.chmod(0o600 if private else 0o700)
    place.chmod(0o1777 if sticky else 0o777)
    done = hugealign("run", "--how=stage", "--fix", "--file", path, "--", "sha256sum", path)
    cached = named or (private and sticky)
    assert (done.stdout.split()[0] == digest) == cached, done.stderr
    assert ("1 file fixed" in hugealign("fix", "-r", path).stdout) != cached


def test_a_program_that_left_its_text(programs: Programs, place: Path) -> None:
    words, _ = leaving(programs, place)
    with running(*words) as child:
        (result,) = process(child.pid)["diagnoses"]
        assert (result["code"], result["facts"]) == ("process.no-text", {"process": child.pid})
        done = hugealign(*result["remedy"]["argv"][1:], "--json")
    assert "process.no-text" not in done.stdout


def test_a_kernel_that_only_counts(programs: Programs, place: Path) -> None:
    """As before Linux 6.7, which has no PAGEMAP_SCAN."""
    need("strace")
    path = copied(programs, place, "fixed")  # its text has a head and a tail, which are in small pages
    with running(path, "1") as child:
        (result,) = process(child.pid, prefix=faulty("ioctl", "error=ENOTTY"))["diagnoses"]
    assert (result["code"], result["remedy"]) == ("process.counts-only", None)


def test_a_program_that_disables_huge_pages_for_itself(programs: Programs, place: Path) -> None:
    """No other start helps, and none is named; MariaDB is such a program."""
    source = _DISABLING.replace("prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);", "")
    (programs.directory / "itself.c").write_text(source, encoding="ascii")
    command = "gcc -fuse-ld=bfd -o itself itself.c text.o pad.o -Wl,-T,pad.ld -Wl,-z,max-page-size=0x200000"
    subprocess.run([*command.split(), "-Wl,-z,separate-code"], cwd=programs.directory, check=True)
    with running(copied(programs, place, "itself", warm=True), "5", "disable") as child:
        (result,) = process(child.pid)["diagnoses"]
    assert (result["code"], result["remedy"]) == ("program.thp-disabled", None)
