"""``hugealign fix`` on this kernel: what is fixed gets huge pages; kills and other trouble leave whole files."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hugealign.fixing import fix as fixing
from tests.live.programs import NOBODY, ROOT, WINDOW, Programs, huge_kib, hugealign, running
from tests.strace import each, needs_strace
from tests.support import HUGEALIGN, need, refused, worded

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
    assert "0 -> 3 windows" in fix(plain, "-o", fixed)
    assert hugealign("warm", fixed).returncode == 0
    with running(fixed, "5") as child:
        assert huge_kib(child.pid, fixed) == 3 * WINDOW >> 10
    with running(plain, "5") as child:
        assert huge_kib(child.pid, plain) == 0


def test_running_program_keeps_the_old_file(place: Path) -> None:
    path = place / "plain"
    old = path.read_bytes()
    with running(path, "5") as child:
        assert fix("--in-place", path).splitlines()[0].endswith("0 -> 3 windows of 2.0 MiB")
        assert Path(f"/proc/{child.pid}/exe").read_bytes() == old
        assert child.poll() is None
    assert "nothing to do" in fix("--in-place", path)
    assert sorted(os.listdir(place)) == ["plain"]


def test_mapped_library_is_replaced(place: Path) -> None:
    """Nothing keeps a library from being written to while programs map it, so it is not."""
    (place / "lib.s").write_text('.globl f\nf: ret\n.fill 5 << 20, 1, 0\n.section .note.GNU-stack,"",@progbits\n')
    (place / "user.c").write_text(
        '#include <unistd.h>\nvoid f(void); int main(void) { f(); write(1, "ready\\n", 6); pause(); }\n'
    )
    library, user = place / "libf.so", place / "user"
    subprocess.run(["gcc", "-shared", place / "lib.s", "-Wl,-z,max-page-size=4096", "-o", library], check=True)
    subprocess.run(["gcc", place / "user.c", library, f"-Wl,-rpath,{place}", "-o", user], check=True)
    inode = library.stat().st_ino
    with running(user):
        fix("--in-place", library)
        assert library.stat().st_ino != inode
        with running(user):
            pass


def refusal(done: subprocess.CompletedProcess[str]) -> tuple[str, dict[str, Any]]:
    """Return code and facts of why the file is as it was."""
    (error,) = json.loads(done.stdout)["errors"]
    return error["diagnosis"]["code"], error["diagnosis"]["facts"]


def test_hard_links_and_a_copy_exclude_each_other(place: Path) -> None:
    path = place / "plain"
    (place / "second").hardlink_to(path)
    before = path.read_bytes()
    done = hugealign("fix", "--in-place", "--json", path)
    assert (done.returncode, refusal(done)) == (1, ("file.not-replaced", {"names": 2}))
    assert path.read_bytes() == before


@needs_root
def test_what_nobody_can_write_to_is_not_promised(place: Path) -> None:
    """A file on a read-only mount, and an immutable one: not even sudo changes them in place."""
    path = place / "plain"

    def promised(before: str, after: str) -> str:
        script = f"{before} && {{ {HUGEALIGN} verify {path}; {HUGEALIGN} fix --dry-run {place}; {after}; }}"
        done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)
        if not done.stdout:
            pytest.skip(done.stderr)
        return " ".join(done.stdout.split())

    output = promised("true", "true")
    assert f"hugealign fix --in-place {path} (0 -> " in output
    assert "1 file would gain" in output
    mount = f"mount --bind {place} {place} && mount -o remount,ro,bind {place}"
    for before, after in ((mount, "true"), (f"chattr +i {path}", f"chattr -i {path}")):
        output = promised(before, after)
        assert f"fix: hugealign fix {path} -o OUT (0 -> " in output
        assert "--in-place" not in output
        assert "0 files would gain" in output


@needs_root
def test_privileges_are_kept(place: Path) -> None:
    path = place / "plain"
    need("setcap", "setfacl")
    os.chown(path, 1234, 5678)
    subprocess.run(["setcap", "cap_net_raw=ep", path], check=True)
    subprocess.run(["setfacl", "-m", "u:1111:rx", path], check=True)
    os.setxattr(path, "user.note", b"\0\xff")
    before, attributes = path.stat(), {name: os.getxattr(path, name) for name in os.listxattr(path)}
    assert {"security.capability", "system.posix_acl_access", "user.note"} <= attributes.keys()
    fix("--in-place", path)
    assert {name: os.getxattr(path, name) for name in os.listxattr(path)} == attributes
    after = path.stat()
    assert (after.st_uid, after.st_gid, after.st_mode, after.st_mtime_ns) == (
        (1234, 5678, before.st_mode, before.st_mtime_ns)
    )
    assert after.st_ino != before.st_ino
    path.chmod(0o4755)
    os.removexattr(path, "security.capability")
    fix("--undo", path)
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
        done = hugealign("fix", "--in-place", "--json", small / "plain")
        assert (done.returncode, refusal(done)) == (3, ("file.not-replaced", {"error": "ENOSPC"}))
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
        prefix = NOBODY
        if not shutil.which(prefix[0]):
            pytest.skip("no setpriv")
    else:
        path.chmod(0o555)
    done = hugealign("fix", "--in-place", "--json", path, prefix=prefix)
    assert (done.returncode, refusal(done)) == (3, ("file.not-replaced", {"error": "EACCES"}))


#: The system calls that change something; each is cut off at its first, second, … call.
_CALLS = ("pwrite64", "ftruncate", "fsync", "copy_file_range", "linkat", "rename,renameat")
_OTHER_CALLS = ("flock", "utimensat", "fchown", "fchmod", "fsetxattr", "lseek")


def outcome(path: Path, old: bytes, new: bytes) -> str:
    """Name what a kill has left, after it has run."""
    with running(path, "5"):
        pass
    content = path.read_bytes()
    assert content in (old, new)
    return "new" if content == new else "old"


def injected(place: Path, prefix: tuple[str, ...], *words: str) -> subprocess.CompletedProcess[str]:
    """Run `fix` with *words* on the program in *place*, started by *prefix*."""
    command = (*prefix, sys.executable, "-m", "hugealign", "fix", "--in-place", "--json", *words, str(place / "plain"))
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("way", ["in place", "output"])
def test_file_that_changes_once_it_is_read_is_left_alone(
    way: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = place / "plain", (place / "plain").read_bytes() + bytes(1)
    made = fixing.outcome

    def changing(*words: Any, **named: Any) -> Any:
        result = made(*words, **named)
        path.write_bytes(other)
        return result

    monkeypatch.setattr(fixing, "outcome", changing)
    options = fixing.FixOptions(in_place=way != "output", output=str(place / "new") if way == "output" else None)
    with refused("file.changed"):
        fixing.fix(str(path), options)
    assert path.read_bytes() == other
    assert not (place / "new").exists()


@pytest.mark.matrix
@needs_strace
def test_killed_before_each_system_call(place: Path) -> None:
    path = place / "plain"
    old = path.read_bytes()
    fix(path, "-o", place / "fixed")
    new = (place / "fixed").read_bytes()
    os.unlink(place / "fixed")
    seen = set()
    for _, prefix in each(_CALLS, range(1, 5), "signal=SIGKILL", place / "trace", set()):
        path.write_bytes(old)
        path.chmod(0o4755)
        done = injected(place, prefix)
        if done.returncode == 0:
            continue
        assert done.returncode == -signal.SIGKILL, done.stderr
        seen.add(outcome(path, old, new))
        fix("--in-place", path)
        assert path.read_bytes() == new
        # Nothing stays behind for good: the second run removes what the first has left.
        assert sorted(os.listdir(place)) == ["plain", "trace"]
        fix("--undo", path)
        assert path.read_bytes() == old
    assert seen == {"old", "new"}


@needs_strace
@pytest.mark.parametrize(
    ("fault", "every", "numbers"),
    [
        ("ENOSPC", ("pwrite64", "fsync"), (1, 2, 3, 4)),
        *(
            pytest.param(name, (*_CALLS, *_OTHER_CALLS), range(1, 9), marks=pytest.mark.matrix)
            for name in ("ENOSPC", "EIO", "EDQUOT")
        ),
    ],
)
@pytest.mark.parametrize("way", ["fix", "undo"])
def test_error_at_each_system_call(
    way: str, fault: str, every: tuple[str, ...], numbers: Sequence[int], place: Path
) -> None:
    """What is said about the file is what it is; docs/explanation/fixed-files.md has this as a table."""
    path = place / "plain"
    plain = path.read_bytes()
    fix(path, "-o", place / "fixed")
    fixed = (place / "fixed").read_bytes()
    os.unlink(place / "fixed")
    old, new = (fixed, plain) if way == "undo" else (plain, fixed)
    words = ("--undo",) if way == "undo" else ()
    seen = set()
    for calls, prefix in each(every, numbers, f"error={fault}", place / "trace", set()):
        path.write_bytes(old)
        path.chmod(0o4755)
        before = path.stat()
        done = injected(place, prefix, *words)
        content = path.read_bytes()
        if done.returncode == 0:  # not so often, or we can do without
            assert content == new
            continue
        assert done.returncode == 3
        assert content in (old, new)
        left = "new" if content == new else "old"
        code, _ = refusal(done)
        assert (code == "file.not-synced") == (left == "new"), (prefix, code)
        assert sorted(os.listdir(place)) == ["plain", "trace"]
        after = path.stat()
        for what in ("st_mode", "st_uid", "st_mtime_ns"):
            assert getattr(after, what) == getattr(before, what)
        seen.add((calls, left))
    assert ("fsync", "new") in seen
    assert ("pwrite64", "old") in seen


@pytest.mark.parametrize(
    "rounds", [3, pytest.param(1000, marks=[pytest.mark.matrix, pytest.mark.timeout(7200)])], ids=str
)
def test_ten_writers_at_once(place: Path, rounds: int) -> None:
    """Whoever is first, the others see a whole file; it can always be undone."""
    path = place / "plain"
    old = path.read_bytes()
    levels = ("align", "shift", "separate")
    for number in range(rounds):
        path.write_bytes(old)
        children = []
        for writer in range(10):
            level = levels[(writer + number) % 3]
            undo = ("--undo",) if writer % 5 == 4 else ()
            words = (sys.executable, "-m", "hugealign", "fix", "--in-place", "--page-size=64K", "--level", level, *undo)
            children.append(subprocess.Popen([*words, path], cwd=ROOT, stdout=-1, stderr=-1, text=True))
        for child in children:
            _, output = child.communicate()
            assert child.returncode in (0, 1), output
            assert "Traceback" not in output
        if path.read_bytes() != old:
            fix("--undo", path)
        assert path.read_bytes() == old
        assert sorted(os.listdir(place)) == ["plain"]


def test_zeros_behind_the_contents_come_back(place: Path) -> None:
    """As patchelf leaves them in wheels: no tool looks for them, and undoing gives them back."""
    path = place / "plain"
    old = path.read_bytes() + bytes(5)
    path.write_bytes(old)
    fix("--in-place", path)
    with running(path, "5"):
        pass
    fix("--undo", path, "-o", place / "back")
    assert (place / "back").read_bytes() == old
    fix("--undo", path)
    assert path.read_bytes() == old
    fix(path, "--page-size", "64K", "--level", "align", "-o", place / "other")
    done = hugealign("fix", "--undo", path, "-o", place / "no")
    assert (done.returncode, worded("fix.no-record") in done.stderr) == (1, True)
