"""``hugealign stage``: the store that services share, which no other user may change."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.documents import check
from tests.live import stock as stocks
from tests.live.programs import ROOT, WINDOW, WINDOWS, huge_kib, hugealign, running
from tests.live.stock import USER, command, mounts
from tests.strace import each, needs_strace
from tests.support import advised, need, worded

ALL = WINDOWS * WINDOW >> 10
#: cap_net_raw+ep, as setcap(8) writes it: struct vfs_cap_data, linux/capability.h.
CAPABILITY = bytes.fromhex("0100000200200000000000000000000000000000")
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to make a store")


@pytest.fixture
def program(stock: Path, tmp_path: Path) -> Path:
    """A program that is this test's own."""
    path = stock / tmp_path.name
    shutil.copy(stock / "good", path)
    return path


def stage(store: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return hugealign("stage", "--store", store, *words)


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    result: dict[str, Any] = check(done.stdout)
    return result


def listed(*what: str | Path) -> list[dict[str, Any]]:
    """Return the copies in the stores that `status` lists for *what*."""
    changes = json.loads(hugealign("status", "--json", *what).stdout)["changes"]
    return [copy for change in changes for copy in change["copies"]]


def drop(*what: str | Path) -> subprocess.CompletedProcess[str]:
    return hugealign("status", "--undo", *what)


def copies(store: Path) -> list[str]:
    return sorted(name for name in os.listdir(store) if name not in ("path", "for", "lock"))


def gone(store: Path) -> bool:
    """Say whether nothing is left of the store: no mount, no lock, no directory."""
    return not store.exists() and f" {store} " not in mounts()


def link(store: Path, program: Path) -> Path:
    return Path(f"{store}/path{program}")


def test_a_copy_that_services_can_bind(store: Path, program: Path) -> None:
    done = stage(store, program)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{program}: 3 of 3 windows huge (10.0 MiB, copied)\n"
    copy = link(store, program)
    assert copy.read_bytes() == program.read_bytes()
    before, after = program.stat(), copy.stat()
    for what in ("st_mode", "st_uid", "st_gid", "st_size", "st_mtime_ns"):
        assert getattr(before, what) == getattr(after, what)
    assert after.st_blocks <= before.st_blocks + (3 * WINDOW >> 9)  # holes stay holes
    with running(copy, "5") as child:
        assert huge_kib(child.pid, copy.resolve()) == ALL
    assert stage(store, program).stdout.endswith("there already)\n")
    # As the service that `enable` writes does it: the name goes first, the copy is used again.
    copy.unlink()
    assert stage(store, program).stdout.endswith("there already)\n")
    assert (store.stat().st_mode & 0o7777, store.stat().st_uid) == (0o755, 0)


def test_nothing_in_the_store_confers_privileges(store: Path, program: Path, stock: Path) -> None:
    """Neither do copies of version 1.0.0, which it could make by mistake, and whose mount allowed it."""
    other = program.with_name("other")
    shutil.copy(stock / "state", other)
    assert stage(store, program, other).returncode == 0
    options = next(line for line in mounts().splitlines() if f" {store} " in line).split()[5].split(",")
    assert {"nosuid", "nodev"} <= {*options}
    subprocess.run(["mount", "-o", "remount,bind,suid", store], check=True)
    first, second = (link(store, path).resolve() for path in (program, other))
    first.chmod(0o4755)
    os.setxattr(second, "security.capability", CAPABILITY)
    inodes = {path.stat().st_ino for path in (first, second)}
    assert stage(store, program).stdout.endswith("copied)\n")
    assert stage(store, other).stdout.endswith("copied)\n")
    assert os.statvfs(store).f_flag & os.ST_NOSUID
    for path in (link(store, program).resolve(), link(store, other).resolve()):
        assert (path.stat().st_mode & 0o7777, path.stat().st_ino in inodes) == (0o755, False)
        assert "security.capability" not in os.listxattr(path)


def test_what_lies_where_a_link_belongs(store: Path, program: Path) -> None:
    """A container engine makes an empty directory where a copy is to be; anything else in the way leaves no part."""
    assert stage(store, "--owner", "a.service", program).returncode == 0  # so that there is a store
    place = link(store, program)
    place.mkdir(parents=True)
    assert stage(store, program).returncode == 0
    assert place.read_bytes() == program.read_bytes()
    place.unlink()
    (place / "file").mkdir(parents=True)
    other = program.with_name("other")
    shutil.copy(program, other)
    link(store, other).mkdir()
    (link(store, other) / "file").touch()
    before = copies(store)
    for path in (program, other):
        done = stage(store, path)
        assert (done.returncode, done.stderr.count("\n")) == (3, 1), done
    assert sorted(os.listdir(store)) == sorted([*before, "for", "lock", "path"])
    assert {entry["path"] for entry in listed(store)} == {str(program)}


def test_directories_where_a_store_was_before_a_boot(store: Path, program: Path) -> None:
    """A container engine makes one where a copy was, and all above it; links and files are not ours to remove."""
    other = store / "path" / "other"
    for target in ("", "/usr"):
        link(store, program).mkdir(parents=True, exist_ok=True)
        if target:
            other.symlink_to(target)
        else:
            other.touch()
        done = stage(store, program)
        assert (done.returncode, worded("store.not-empty", store=str(store)) in done.stderr) == (3, True)
        other.unlink()
        assert link(store, program).exists()
    assert stage(store, program).returncode == 0
    assert link(store, program).read_bytes() == program.read_bytes()


def test_services_share_a_copy_and_take_away_their_own_name_alone(store: Path, stock: Path, program: Path) -> None:
    """As two services do that start at once: each removes its names, then stages; the other's stay, and the copies."""
    other = program.with_name("library")
    shutil.copy(stock / "state", other)
    for owner in ("a.service", "b.service"):
        assert stage(store, "--owner", owner, program, other).returncode == 0
    assert len(copies(store)) == 2
    ours, theirs = (Path(f"{store}/for/{owner}{other}") for owner in ("a.service", "b.service"))
    inode = theirs.stat().st_ino
    ours.unlink()
    assert stage(store, "--owner", "a.service", program).stdout.endswith("there already)\n")
    assert theirs.stat().st_ino == inode  # although a.service no longer names it
    assert stage(store, "--owner", "a.service", other).stdout.endswith("there already)\n")
    assert ours.stat().st_ino == inode
    assert {entry["path"] for entry in listed(store)} == {str(program), str(other)}
    assert drop(other).returncode == 0
    assert not os.path.lexists(ours)
    assert not os.path.lexists(theirs)
    assert len(copies(store)) == 1
    assert stage(store, "--owner", "../x", program).returncode == 2


def test_a_service_that_starts_again_finds_all_of_its_copies(store: Path, stock: Path, program: Path) -> None:
    """Its helper removes all names first, and stages all files; the process that runs from the copies may still run."""
    others = [program.with_name(name) for name in ("one", "two")]
    for other in others:
        shutil.copy(stock / "state", other)
    words: list[str | Path] = ["--owner", "a.service", program, *others]
    assert stage(store, *words).returncode == 0
    made = copies(store)
    assert len(made) == 3
    for path in program, *others:
        Path(f"{store}/for/a.service{path}").unlink()
    assert stage(store, *words).stdout.count("there already)\n") == 3
    assert copies(store) == made
    program.touch()  # an upgrade: its old copy, which no link leads to, goes
    Path(f"{store}/for/a.service{program}").unlink()
    assert stage(store, *words).stdout.count("there already)\n") == 2
    assert len(copies(store)) == 3


def test_run_takes_it(store: Path, program: Path) -> None:
    stage(store, program)
    inode = link(store, program).stat().st_ino
    for user in (False, True):
        words = command("run", "--store", store, "--", program, "5", user=user)
        with running(*words) as child:
            there = Path(f"/proc/{child.pid}/exe").stat()
            assert (there.st_dev, there.st_ino) == (store.stat().st_dev, inode)
            assert huge_kib(child.pid, program) == ALL


def test_file_that_changed_gets_another_copy(store: Path, stock: Path, program: Path) -> None:
    stage(store, program)
    old = copies(store)
    new = program.with_suffix(".new")
    shutil.copy(stock / "state", new)
    new.replace(program)
    assert [(entry["path"], entry["current"]) for entry in listed(store)] == [(str(program), False)]
    assert f"  {program}: 10.0 MiB, out of date\n" in hugealign("status").stdout
    assert stage(store, program).returncode == 0
    assert link(store, program).read_bytes() == program.read_bytes()
    assert len(copies(store)) == 1
    assert copies(store) != old


def test_old_copy_does_not_outlive_a_failure(store: Path, program: Path) -> None:
    """After an upgrade, what cannot be staged starts as it is, not as it was."""
    stage(store, program)
    program.unlink()
    program.write_text("#!/bin/sh\n")
    done = stage(store, program)
    assert done.returncode == 3
    assert not link(store, program).exists()
    program.unlink()
    assert stage(store, program).stderr.endswith("No such file or directory\n")
    assert gone(store)


def test_each_file_that_cannot_be_staged_is_named(store: Path, program: Path) -> None:
    text = program.with_name(f"{program.name}.txt")
    text.write_text("text")
    done = stage(store, "--json", "--libs", text, program)
    result = document(done)
    assert done.returncode == 3
    assert [error["target"] for error in result["errors"]] == [str(text)]
    assert [file["path"] for file in result["files"]] == [str(program)]


def test_files_of_others_stay(store: Path, program: Path) -> None:
    assert stage(store, program).returncode == 0
    other = store / "other.db"
    other.write_text("mine")
    (store / "directory").mkdir()
    program.touch()
    assert stage(store, program).returncode == 0
    assert drop(store).returncode == 1
    assert other.read_text() == "mine"
    assert copies(store) == ["directory", "other.db"]


def test_copies_are_removed_one_by_one_and_all_together(store: Path, program: Path, stock: Path) -> None:
    stage(store, program, stock / "good")
    (change,) = json.loads(drop("--json", program).stdout)["changes"]
    assert (change["diagnosis"]["subject"], change["undone"]) == (str(store), True)
    assert [copy["path"] for copy in change["copies"]] == [str(program)]
    for what in (program, store / "none"):
        done = drop(what)
        expected = f"hugealign: error: {what}: {worded('machine.unchanged')}\n"
        assert (done.returncode, done.stdout, done.stderr) == (1, "", expected)
    assert len(copies(store)) == 1
    assert len(listed(store, f"{store}/")) == 1  # a change that two words name is one
    with running(link(store, stock / "good"), "5") as child:
        assert drop(store).stdout.endswith(f": undone\n  {stock}/good: 10.0 MiB, current\n")
        assert gone(store)
        assert huge_kib(child.pid, Path("/")) == ALL  # it keeps its text
    assert listed() == []


def test_no_window_and_fixed(store: Path, stock: Path) -> None:
    done = stage(store, stock / "plain")
    assert (done.returncode, store.exists()) == (1, False)
    why, run = (
        worded("text.no-window", page_size=WINDOW),
        advised("run", "hugealign", "stage", "--fix", stock / "plain"),
    )
    assert f"not staged: {why}; {run} (0 -> " in done.stdout
    result = document(stage(store, "--fix", "--json", stock / "plain"))["files"][0]
    assert result["fixed"] is True
    assert result["windows_huge"] == result["windows"] > 0
    assert stage(store, "--fix", stock / "plain").stdout.endswith("there already)\n")


def test_full_store(store: Path, program: Path) -> None:
    store.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "huge=always,size=4M,mode=755", "none", store], check=True)
    done = stage(store, program)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(f"{worded('copy.failed', error='ENOSPC')}\n")
    assert (copies(store), link(store, program).exists()) == ([], False)


@pytest.mark.parametrize(
    ("options", "mode", "code"),
    [
        ("huge=never,mode=755", 0o755, "store.other-mount"),
        ("huge=always,mode=777", 0o755, "file.others-may-write"),
        ("huge=always,mode=755,uid=65534", 0o755, "file.others-may-write"),
        ("huge=always,mode=755", 0o777, "file.others-may-write"),
    ],
)
def test_store_of_others_is_refused(built: Any, program: Path, options: str, mode: int, code: str) -> None:
    above = built.directory / "above"
    above.mkdir(exist_ok=True)
    above.chmod(0o755)
    with stocks.store(above) as store:
        store.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", store], check=True)
        above.chmod(mode)
        done = stage(store, "--json", program)
        (error,) = document(done)["errors"]
        assert (done.returncode, error["diagnosis"]["code"]) == (3, code)
        # A copy that lies in wait there, by the right name, is not executed.
        info = program.stat()
        name = f"{info.st_dev:x}-{info.st_ino:x}-{info.st_ctime_ns:x}-{info.st_size:x}"
        shutil.copy("/bin/false", store / name)
        with running(*command("run", "--store", store, "--how=stage", "--", program, "5")) as child:
            assert Path(f"/proc/{child.pid}/exe").stat().st_dev != store.stat().st_dev
            assert huge_kib(child.pid, program) == ALL


def test_link_in_place_of_a_store_is_refused(built: Any, program: Path) -> None:
    place = built.directory / "linked-store"
    place.symlink_to("/tmp")
    done = stage(place, program)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    place.unlink()


def test_ordinary_user_makes_none(built: Any, program: Path) -> None:
    done = hugealign("stage", "--store", built.directory / "store", program, prefix=USER)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert "Permission denied" in done.stderr


def test_user_cannot_lock_it(store: Path, program: Path) -> None:
    stage(store, program)
    for path in (store / "lock", *(store / name for name in ("path", "."))):
        holder = [*USER, "flock", "--exclusive", str(path), "sleep", "1000"]
        with subprocess.Popen(holder, stderr=subprocess.DEVNULL) as child:
            time.sleep(0.1)
            assert stage(store, program).returncode == 0
            child.terminate()


def test_privileges_and_secrets_are_refused(store: Path, program: Path) -> None:
    """A copy would still give what an upgrade took away, and show what a directory hides."""
    hidden = program.with_suffix(".d")
    hidden.mkdir(mode=0o700)
    shutil.copy(program, hidden / "program")
    for mounted in (False, True):
        program.chmod(0o4755)
        assert worded("copy.privileges") in stage(store, program).stderr
        assert worded("copy.closed-directory", directory=str(hidden)) in stage(store, hidden / "program").stderr
        assert gone(store)
        program.chmod(0o755)
        if not mounted:
            assert stage(store, program).returncode == 0


def test_no_store_is_made_for_nothing(store: Path, stock: Path) -> None:
    for path in ("/nowhere/program", "/etc/passwd", "/dev/null", stock / "plain"):
        assert stage(store, path).returncode in (1, 3)
    assert not store.exists()
    assert str(store) not in Path("/proc/self/mountinfo").read_text(encoding="ascii", errors="replace")


def test_attributes_are_carried(store: Path, program: Path) -> None:
    need("setfacl")
    subprocess.run(["setfacl", "-m", "u:1234:r-x", program], check=True)
    os.setxattr(program, "trusted.note", b"kept")
    os.utime(program, ns=(1, 2))
    assert stage(store, program).returncode == 0
    copy = link(store, program).resolve()
    for name in ("system.posix_acl_access", "trusted.note"):
        assert os.getxattr(copy, name) == os.getxattr(program, name)
    assert copy.stat().st_mtime_ns == 2


def test_only_root_can_change_a_copy(store: Path, program: Path) -> None:
    """Others run it: its file's owner and group cannot change it, wherever they can change the file."""
    os.chown(program, 65534, 65534)
    program.chmod(0o775)
    assert stage(store, program).returncode == 0
    copy = link(store, program)
    before = copy.read_bytes()
    words = [*USER, "sh", "-c", 'chmod u+w "$1"; echo >>"$1"', "sh", str(copy)]
    done = subprocess.run(words, check=False, capture_output=True)
    assert done.returncode
    assert copy.read_bytes() == before
    assert (copy.stat().st_uid, copy.stat().st_mode & 0o777) == (0, 0o755)
    with running(copy, "5") as child:  # the same program
        assert huge_kib(child.pid, copy.resolve()) == ALL
    # One that an older version left is made again.
    os.chown(copy, 65534, -1)
    assert "(10.0 MiB, copied)" in stage(store, program).stdout
    assert copy.stat().st_uid == 0
    program.chmod(0o750)
    assert worded("copy.owner-may-change") in stage(store, program).stderr


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_umask_changes_nothing(store: Path, program: Path, mask: int) -> None:
    words = stocks.module("stage", "--store", store, program)
    subprocess.run(words, check=True, umask=mask)
    for directory in (store, *(path for path in store.rglob("*") if path.is_dir())):
        assert directory.stat().st_mode & 0o777 == 0o755
    assert subprocess.run([*USER, "cat", link(store, program)], check=False, capture_output=True).returncode == 0


def test_released_copies_go_unless_another_service_has_them(store: Path, program: Path) -> None:
    """As after `disable`."""
    for owner in ("a.service", "b.service"):
        assert stage(store, "--owner", owner, program).returncode == 0
    for owner, left in (("a.service", 1), ("a.service", 1), ("b.service", 0)):
        code = "import sys; from hugealign.run import store; store.release(*sys.argv[1:])"
        subprocess.run([sys.executable, "-c", code, owner, store], check=True, cwd=ROOT)
        assert not (store / "for" / owner).exists()
        assert len(copies(store)) == left if left else gone(store)


def test_store_is_not_mounted_where_others_write_or_over_files(store: Path, program: Path) -> None:
    for mode, file, code in ((0o777, "", "file.others-may-write"), (0o755, "file", "store.not-empty")):
        store.mkdir()
        store.chmod(mode)
        if file:
            (store / file).touch()
        done = stage(store, "--json", program)
        (error,) = document(done)["errors"]
        assert (done.returncode, error["diagnosis"]["code"]) == (3, code)
        assert f" {store} " not in mounts()
        shutil.rmtree(store)


def test_starters_at_once_make_one_copy(store: Path, program: Path) -> None:
    """The store is not there yet either: one of them mounts it."""
    words = stocks.module("stage", "--store", store, program)
    children = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(20)]
    for child in children:
        _, errors = child.communicate()
        assert (child.returncode, errors) == (0, "")
    assert len(copies(store)) == 1
    assert mounts().count(f" {store} ") == 1
    assert link(store, program).read_bytes() == program.read_bytes()


def test_a_store_of_containers_goes_with_its_last_copy(store: Path, program: Path) -> None:
    code = """
import os, sys
from hugealign.run import store
staged, copy = store.stage_privately(os.open(sys.argv[2], os.O_PATH), sys.argv[1], fix=False)
assert (staged.huge, staged.windows, oct(os.stat(sys.argv[1]).st_mode)[-3:]) == (3, 3, "700")
"""
    subprocess.run([sys.executable, "-c", code, store, program], check=True, cwd=ROOT)
    assert copies(store)
    assert drop(store).returncode == 0
    assert gone(store)


def test_a_store_that_somebody_else_mounted_stays(store: Path, program: Path) -> None:
    store.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "huge=always,mode=755", "none", store], check=True)
    assert stage(store, program).returncode == 0
    assert drop(store).returncode == 0
    assert copies(store) == []
    assert mounts().count(f" {store} ") == 1


def test_a_mount_that_is_refused_leaves_no_directory(store: Path, program: Path) -> None:
    """As for root in a container."""
    done = hugealign("stage", "--store", store, program, prefix=("setpriv", "--bounding-set=-sys_admin"))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert not store.exists()


each_round = pytest.mark.parametrize("rounds", [15, pytest.param(300, marks=pytest.mark.matrix)])
#: Stages the file until it has made so many copies, and looks whether its copy is there.
_STAGER = """
import os, sys
from hugealign.run import store
place, program, owner, rounds = sys.argv[1:]
made = 0
while made < int(rounds):
    staged = store.stage(program, place, owner=owner)
    assert (staged.huge, staged.windows) == (3, 3), staged
    made += staged.state == store.MADE
    if owner:
        assert os.path.getsize(staged.link) == os.path.getsize(program), staged
        store.release(owner, place)
        assert not os.path.lexists(staged.link), staged
"""
#: Drops all copies until it need not.
_DROPPER = """
import os, sys
from hugealign.run import store
place, = sys.argv[1:]
while not os.path.exists(place + ".end"):
    store.drop((), place)
"""


def started(code: str, *words: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.Popen(command, text=True, cwd=ROOT, stderr=subprocess.PIPE)


def ended(*children: "subprocess.Popen[str]") -> None:
    """Wait for the *children*; none may have failed, even once."""
    errors = [child.communicate()[1] for child in children]
    assert [(child.returncode, text) for child, text in zip(children, errors, strict=True)] == [(0, "")] * len(children)


@each_round
def test_a_copy_that_was_just_staged_is_not_lost(store: Path, program: Path, rounds: int) -> None:
    """Each owner releases its own copy alone, so the store comes and goes, and what is staged is there."""
    other = program.with_name("other")
    shutil.copy(program, other)
    ended(*(started(_STAGER, store, *words, rounds) for words in ((program, "a.service"), (other, "b.service"))))
    assert gone(store)


@each_round
def test_all_are_dropped_while_others_stage(store: Path, program: Path, rounds: int) -> None:
    end = store.with_name("store.end")
    dropper = started(_DROPPER, store)
    try:
        ended(started(_STAGER, store, program, "", rounds))
    finally:
        end.touch()
        ended(dropper)
        end.unlink()
    drop(store)
    assert gone(store)


@pytest.mark.matrix
def test_a_hundred_starters_at_once(store: Path, program: Path) -> None:
    words = stocks.module("stage", "--store", store, program)
    children = [subprocess.Popen(words) for _ in range(100)]
    assert {child.wait() for child in children} == {0}
    assert (len(copies(store)), mounts().count(f" {store} ")) == (1, 1)


_CALLS = "mkdir mount flock copy_file_range pwrite64 ftruncate fchown fchmod utimensat linkat symlink rename unlinkat"


@needs_strace
@pytest.mark.parametrize(
    "fault", [*(pytest.param(f"error={name}", marks=pytest.mark.matrix) for name in ("EIO", "ENOSPC")), "signal=KILL"]
)
@pytest.mark.parametrize(
    ("calls", "numbers"),
    [
        (("mount", "pwrite64", "linkat", "rename"), (1,)),
        pytest.param(_CALLS.split(), (1, 2, 3, 5, 8), marks=[pytest.mark.matrix, pytest.mark.timeout(3600)]),
    ],
    ids=["some", "all"],
)
def test_stage_that_fails_or_dies(
    store: Path,
    stock: Path,
    program: Path,
    calls: tuple[str, ...],
    numbers: tuple[int, ...],
    fault: str,
    tmp_path: Path,
) -> None:
    """Under the name there is a whole copy of the file as it is now, or none; and the next one puts all in order."""
    old, new = (stock / "good").read_bytes(), (stock / "state").read_bytes()
    hit: set[str] = set()
    for upgraded in (False, True):
        content = new if upgraded else old
        for _, prefix in each(calls, numbers, fault, tmp_path / "calls", hit):
            program.unlink(missing_ok=True)
            shutil.copy(stock / "good", program)
            if upgraded:
                assert stage(store, program).returncode == 0
                program.unlink()
                shutil.copy(stock / "state", program)
            words = [*prefix, *stocks.module("stage", "--store", store, program)]
            done = subprocess.run(words, check=False, capture_output=True, text=True)
            assert "Traceback" not in done.stderr, prefix
            assert done.returncode in (0, 1, 3, -9, 137), done
            assert program.read_bytes() == content
            path = link(store, program)
            if path.exists():
                kept = path.read_bytes()
                # Killed before it could look: then `enable` has removed the name before (see there).
                assert kept == content or (fault == "signal=KILL" and kept in (old, new)), prefix
            assert stage(store, program).returncode == 0, prefix
            assert path.read_bytes() == content
            assert len(copies(store)) == 1
            # The next one has to mount it.
            subprocess.run(["umount", "--lazy", store], check=False, capture_output=True)
    assert hit == set(calls)
