"""Each diagnosis of a copy, by `stage` or `run`: made, looked for, and gone once what it names is no longer so.

None of them names a command: a person decides about owners, privileges and mounts.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.live.programs import NOBODY, ROOT, hugealign
from tests.support import need

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is needed for most situations")

#: What `run` finds, which it says in text only.
LAUNCH = """
import json, sys
from hugealign.diagnosis import render
from hugealign.run import copies, launch
how, command, before = sys.argv[1:]
exec(before)
texts = launch.prepare(command, launch.LaunchOptions(how=how)).texts
print(json.dumps([render.document(text.diagnosis) for text in texts if text.diagnosis]))
"""
#: Another file takes the program's name once its copy is complete.
_EXCHANGE = """
import os
measure = copies.huge_windows
def exchanged(copy):
    os.rename(command + ".other", command)
    return measure(copy)
copies.huge_windows = exchanged
"""


#: The kernel collapses every second window (seccomp(2): madvise is 28, MADV_COLLAPSE 25, EAGAIN 11).
_PARTLY = """
import ctypes, struct
rules = ((0x20, 0, 0, 0), (0x15, 0, 7, 28), (0x20, 0, 0, 32), (0x15, 0, 5, 25), (0x20, 0, 0, 24), (0x15, 3, 0, 0),
         (0x20, 0, 0, 16), (0x45, 0, 1, 0x400000), (0x06, 0, 0, 0x5000B), (0x06, 0, 0, 0x7FFF0000))
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules), ctypes.addressof(code)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == libc.prctl(22, 2, program) == 0
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A situation: how to ask, what makes it, what is around the command that asks, and what ends it.

    *before* is Python that `run` runs first.  *kind* is that of the remedy; *end* is None if nothing is to be done.
    """

    how: str = "stage --json"
    make: Callable[[Path], object] | None = None
    prefix: str = ""
    before: str = ""
    kind: str | None = None
    end: Callable[[Path], object] | None = None
    needs: str = "true"


def owned(mode: int, owner: int = 0) -> Callable[[Path], object]:
    """Give the program an owner and a mode."""

    def make(path: Path) -> None:
        os.chown(path, owner, owner)
        path.chmod(mode)

    return make


def directory(mode: int) -> Callable[[Path], object]:
    return lambda path: path.parent.chmod(mode)


def twin(path: Path) -> None:
    shutil.copy(path, f"{path}.other")


def script(path: Path) -> None:
    path.write_text("#!/usr/bin/python3\n")


def nothing(_: Path) -> None:
    """End nothing: what was around the command is not there any more."""


_REMOUNT = 'd=$(dirname {path}); mount --bind $d $d; mount -o remount,bind,noexec $d; exec "$@"'
#: FS_IOC_GETFLAGS has FS_VERITY_FL.
_VERITY = "strace -f -o /dev/null -e trace=ioctl -e inject=ioctl:retval=0:poke_exit=@arg3=000010"
_MADVISE = "strace -f -o /dev/null -e trace=madvise -e inject=madvise"
ROWS = {
    "copy.attributes": Row(
        prefix="strace -f -o /dev/null -e trace=fchown -e inject=fchown:error=EPERM", end=nothing, needs="strace"
    ),
    "copy.closed-directory": Row(make=directory(0o700), end=directory(0o755)),
    "copy.failed": Row(prefix="prlimit --fsize=1048576", end=nothing),
    "copy.mount-option": Row(prefix=f"unshare --mount sh -ec '{_REMOUNT}' sh", end=nothing),
    "file.changed": Row("stage", twin, before=_EXCHANGE, kind="advice", end=nothing),
    "copy.no-room": Row(make=lambda path: os.truncate(path, 1 << 42), end=lambda path: os.truncate(path, 16 << 20)),
    "copy.owner-may-change": Row(make=owned(0o700, 1234), end=owned(0o755)),
    "copy.privileges": Row(make=owned(0o4755, 1234)),
    "copy.script": Row("copy", script),
    "copy.sealed": Row(prefix=_VERITY, end=nothing, needs="strace"),
    "process.no-mount-point": Row(
        "stage",
        before="sys.path += ['/tmp', '/var/tmp', '/run', '/mnt', '/opt', '/srv', '/media']",
        kind="look",
        end=nothing,
    ),
    "thp.no-collapse": Row("copy", prefix=f"{_MADVISE}:error=EINVAL", kind="newer-kernel", end=nothing, needs="strace"),
    "thp.partial": Row("copy", before=_PARTLY, kind="retry", end=nothing),
    "process.privileged-program": Row("stage", owned(0o4755, 1234), prefix=" ".join(NOBODY)),
}


def asked(row: Row, path: Path, store: Path, prefix: str = "", before: str = "") -> dict[str, dict[str, Any]]:
    """Return the diagnoses in the answer, by code."""
    around = ("sh", "-c", f'exec {prefix.format(path=path)} "$@"', "sh") if prefix else ()
    if row.how == "stage --json":
        done = hugealign("stage", "--json", "--store", store, path, prefix=around)
        result = json.loads(done.stdout)
        answers = [item["diagnosis"] for item in (*result["files"], *result["errors"])]
    else:
        words = [*around, "env", f"PYTHONPATH={ROOT}", sys.executable, "-c", LAUNCH, row.how, str(path), before]
        answers = json.loads(subprocess.run(words, check=True, capture_output=True, cwd="/").stdout)
    return {item["code"]: item for item in answers if item}


@pytest.mark.parametrize("code", ROWS)
def test_what_keeps_a_file_from_being_copied(stock: Path, store: Path, code: str) -> None:
    row = ROWS[code]
    need(row.needs)
    path = stock / "copied" / "program"
    path.parent.mkdir()
    shutil.copy(stock / "good", path)
    try:
        if row.make:
            row.make(path)
        result = asked(row, path, store, row.prefix, row.before)
        assert set(result) == {code}
        remedy = result[code]["remedy"]
        assert (remedy and remedy["kind"]) == row.kind
        assert not (remedy and remedy["argv"] and remedy["kind"] != "look")
        if row.end:
            row.end(path)
            assert asked(row, path, store) == {}
    finally:
        shutil.rmtree(path.parent)


@pytest.mark.parametrize(("error", "code"), [("EPERM", "thp.refused"), ("EINVAL", "thp.no-collapse")])
def test_a_filter_is_not_taken_for_an_old_kernel(stock: Path, store: Path, error: str, code: str) -> None:
    need("strace")
    (results,) = asked(Row("copy"), stock / "good", store, f"{_MADVISE}:error={error}").values()
    assert results["code"] == code


#: No new file can be made; tests/kernels/test_denied.py has AppArmor refuse it.
_NO_NEW_FILE = """
import os
plain = os.open
def refused(path, flags, *more, **named):
    if flags & os.O_EXCL:
        raise PermissionError(13, "")
    return plain(path, flags, *more, **named)
os.open = refused
"""


def test_a_copy_that_cannot_be_made_is_not_taken_for_a_file_that_cannot_be_read(stock: Path, store: Path) -> None:
    need("strace")
    (result,) = asked(Row("stage"), stock / "good", store, before=_NO_NEW_FILE).values()
    assert (result["code"], result["facts"]) == ("copy.failed", {"error": "EACCES"})
    for call in ("memfd_create", "fchmod"):
        refusing = f"strace -f -o /dev/null -e trace={call} -e inject={call}:error=EPERM"
        (result,) = asked(Row("copy"), stock / "good", store, refusing).values()
        assert (result["code"], result["facts"]) == ("copy.failed", {"error": "EPERM"}), call
