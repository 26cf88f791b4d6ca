"""``hugealign fix`` on this kernel: what is fixed gets huge pages; kills and other trouble leave whole files."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.programs import ROOT, WINDOW, Programs, huge_kib, hugealign, running

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root is needed")


@pytest.fixture
def place(built: Programs, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory of its own, with the program that has no whole window in it."""
    directory = built.directory / request.node.name.translate(str.maketrans("/[] ", "----"))
    directory.mkdir()
    shutil.copy(built.plain, directory / "plain")
    yield directory
    shutil.rmtree(directory)


def fix(*words: str | Path) -> str:
    done = hugealign("fix", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.usefixtures("programs")
def test_warmed_text_is_huge(place: Path) -> None:
    plain, fixed = place / "plain", place / "fixed"
    assert "0 -> 2 windows" in fix(plain, "-o", fixed)
    assert hugealign("warm", fixed).returncode == 0
    with running(fixed, "5") as child:
        assert huge_kib(child.pid, fixed) == 2 * WINDOW >> 10
    with running(plain, "5") as child:
        assert huge_kib(child.pid, plain) == 0


def test_in_place_keeps_inode_names_and_time(place: Path) -> None:
    path = place / "plain"
    (place / "second").hardlink_to(path)
    before = path.stat()
    assert "by a copy" not in fix("--in-place", path)
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_nlink) == (before.st_ino, before.st_mtime_ns, 2)
    assert "windows" in hugealign("verify", place / "second").stdout


def test_running_program_keeps_the_old_file(place: Path) -> None:
    path = place / "plain"
    old = path.read_bytes()
    with running(path, "5") as child:
        assert fix("--in-place", path).splitlines()[0].endswith("(by a copy: it runs)")
        assert Path(f"/proc/{child.pid}/exe").read_bytes() == old
        assert child.poll() is None
    assert "nothing to do" in fix("--in-place", path)
    assert sorted(os.listdir(place)) == ["plain"]


def test_mapped_library_is_replaced(place: Path) -> None:
    """Nothing keeps a library from being written to while programs map it, so it is looked for."""
    (place / "lib.s").write_text('.globl f\nf: ret\n.fill 5 << 20, 1, 0\n.section .note.GNU-stack,"",@progbits\n')
    (place / "user.c").write_text(
        '#include <unistd.h>\nvoid f(void); int main(void) { f(); write(1, "ready\\n", 6); pause(); }\n'
    )
    library, user = place / "libf.so", place / "user"
    subprocess.run(["gcc", "-shared", place / "lib.s", "-Wl,-z,max-page-size=4096", "-o", library], check=True)
    subprocess.run(["gcc", place / "user.c", library, f"-Wl,-rpath,{place}", "-o", user], check=True)
    inode = library.stat().st_ino
    with running(user):
        assert fix("--in-place", library).splitlines()[0].endswith("(by a copy: it is mapped)")
        assert library.stat().st_ino != inode
        with running(user):
            pass


def test_hard_links_and_a_copy_exclude_each_other(place: Path) -> None:
    path = place / "plain"
    (place / "second").hardlink_to(path)
    before = path.read_bytes()
    with running(path, "5"):
        done = hugealign("fix", "--in-place", path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.endswith("it has 2 names (hard links); the others would keep the old file\n")
    assert path.read_bytes() == before


@needs_root
def test_privileges_are_kept(place: Path) -> None:
    path = place / "plain"
    for tool in ("setcap", "setfacl"):
        if not shutil.which(tool):
            pytest.skip(f"no {tool}")
    os.chown(path, 1234, 5678)
    subprocess.run(["setcap", "cap_net_raw=ep", path], check=True)
    subprocess.run(["setfacl", "-m", "u:1111:rx", path], check=True)
    os.setxattr(path, "user.note", b"\0\xff")
    before, attributes = path.stat(), {name: os.getxattr(path, name) for name in os.listxattr(path)}
    assert {"security.capability", "system.posix_acl_access", "user.note"} <= attributes.keys()
    assert "writing would take its privileges away" in fix("--in-place", path)
    assert {name: os.getxattr(path, name) for name in os.listxattr(path)} == attributes
    after = path.stat()
    assert (after.st_uid, after.st_gid, after.st_mode, after.st_mtime_ns) == (
        (1234, 5678, before.st_mode, before.st_mtime_ns)
    )
    assert after.st_ino != before.st_ino
    path.chmod(0o4755)
    os.removexattr(path, "security.capability")
    assert "writing would take its privileges away" in fix("--undo", "--in-place", path)
    assert path.stat().st_mode & 0o7777 == 0o4755


@needs_root
def test_no_space(place: Path) -> None:
    """Nothing is left behind, and the file is as it was."""
    small = place / "small"
    small.mkdir()
    size = (place / "plain").stat().st_size
    room = f"size={(size + 8191) // 4096 * 4096}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", room, "tmpfs", small], check=True)
    try:
        shutil.copy(place / "plain", small / "plain")
        subprocess.run(["dd", "if=/dev/zero", f"of={small}/full"], check=False, capture_output=True)
        done = hugealign("fix", "--in-place", small / "plain")
        assert done.returncode == 3
        assert "No space left" in done.stderr
        assert (small / "plain").read_bytes() == (place / "plain").read_bytes()
        done = hugealign("fix", small / "plain", "-o", small / "out")
        assert done.returncode == 3
        assert sorted(os.listdir(small)) == ["full", "plain"]
    finally:
        subprocess.run(["umount", small], check=True)


def test_without_permission(place: Path) -> None:
    path = place / "plain"
    prefix: tuple[str, ...] = ()
    if os.geteuid() == 0:
        place.chmod(0o755)
        prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        if not shutil.which(prefix[0]):
            pytest.skip("no setpriv")
    else:
        path.chmod(0o555)
    done = hugealign("fix", "--in-place", path, prefix=prefix)
    assert done.returncode == 3
    assert "cannot be written: Permission denied" in done.stderr


#: The system calls that change something, in either way of doing it; each is cut off at its first, second, … call.
_CALLS = ("pwrite64", "ftruncate", "fsync", "copy_file_range", "linkat", "rename,renameat")


def outcome(path: Path, old: bytes, new: bytes) -> str:
    """Name what a kill has left, after it has run."""
    with running(path, "5"):
        pass
    content = path.read_bytes()
    if content == new:
        return "new"
    assert content[: len(old)] == old
    return "old" if content == old else "old and more"


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("way", ["in place", "copy"])
def test_killed_before_each_system_call(way: str, place: Path) -> None:
    path = place / "plain"
    old = path.read_bytes()
    fix(path, "-o", place / "fixed")
    new = (place / "fixed").read_bytes()
    os.unlink(place / "fixed")
    command = (sys.executable, "-m", "hugealign", "fix", "--in-place", path)
    seen = set()
    for calls in _CALLS:
        for number in range(1, 5):
            path.write_bytes(old)
            path.chmod(0o4755 if way == "copy" else 0o755)
            inject = f"inject={calls}:signal=SIGKILL:when={number}"
            words = ("strace", "-f", "-o", place / "trace", "-e", f"trace={calls}", "-e", inject, *command)
            done = subprocess.run(words, cwd=ROOT, check=False, capture_output=True)
            if done.returncode == 0:
                break
            assert done.returncode == -signal.SIGKILL, done.stderr
            left = outcome(path, old, new)
            seen.add(left)
            if left == "old and more" and number % 2:
                assert "the remains of an interrupted fix removed" in fix("--undo", "--in-place", path)
                assert path.read_bytes() == old
            fix("--in-place", path)
            assert path.read_bytes() == new
            # Nothing stays behind for good: the second run removes what the first has left.
            assert sorted(os.listdir(place)) == ["plain", "trace"]
            fix("--undo", "--in-place", path)
            assert path.read_bytes() == old
    assert seen == ({"old", "old and more", "new"} if way == "in place" else {"old", "new"})


def test_killed_at_any_time(place: Path) -> None:
    path = place / "plain"
    old = path.read_bytes()
    fix(path, "-o", place / "fixed")
    new = (place / "fixed").read_bytes()
    chance = random.Random(1)
    started = time.monotonic()
    fix("--in-place", path)
    takes = time.monotonic() - started
    for _ in range(15):
        path.write_bytes(old)
        words = (sys.executable, "-m", "hugealign", "fix", "--in-place", path)
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL) as child:
            time.sleep(chance.uniform(0, takes))
            child.kill()
        outcome(path, old, new)
        fix("--in-place", path)
        assert path.read_bytes() == new


def test_undo_of_a_copy_that_was_cut_short(place: Path) -> None:
    """Half of the record at the end: a fix died while it wrote; the next one sees that."""
    path = place / "plain"
    old = path.read_bytes()
    fix(path, "-o", place / "fixed")
    new = (place / "fixed").read_bytes()
    for length in (16, 40, 200, 1000):
        path.write_bytes((old + new[len(old) :])[: len(old) + 8 + length])
        assert "the remains of an interrupted fix removed" in fix("--undo", path, "-o", place / "back")
        assert (place / "back").read_bytes() == old
        fix(path, "-o", place / "again")
        assert (place / "again").read_bytes() == new


def test_zeros_behind_the_contents_come_back(place: Path) -> None:
    """As patchelf leaves them in wheels: nobody looks for them, and undoing gives them back."""
    path = place / "plain"
    old = path.read_bytes() + bytes(5)
    path.write_bytes(old)
    assert "by a copy: a kill would take the zeros" in fix("--in-place", path)
    with running(path, "5"):
        pass
    fix("--undo", path, "-o", place / "back")
    assert (place / "back").read_bytes() == old
    fix("--undo", "--in-place", path)
    assert path.read_bytes() == old
    fix(path, "--page-size", "64K", "--level", "align", "-o", place / "other")
    done = hugealign("fix", "--undo", path, "-o", place / "no")
    assert (done.returncode, "it has not been fixed" in done.stderr) == (1, True)
