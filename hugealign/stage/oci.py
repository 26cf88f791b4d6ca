"""A hook for container engines: programs of an image run from huge copies, and the image stays as it is.

The engine starts `hugealign oci-hook` on the host, when the container has its mounts but not yet its root
(createRuntime, OCI runtime specification 1.0.2, "POSIX-platform Hooks"), with the container's state on standard input.
The hook stages each program on the host, once for all containers of the image's layer, and mounts the copy over it in
the container.

Image contents are untrusted: no path leads out of the container's root, and the hook never keeps a container from
starting.
"""

import contextlib
import json
import os
import re
import signal
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hugealign import mounts
from hugealign.descriptors import using
from hugealign.errors import HugealignError, cause
from hugealign.machine import foreign, rooted
from hugealign.stage import store
from hugealign.stage.copies import StageError

#: No other user may enter it: not all users may read the contents of an image.
STORE = "/run/hugealign-containers"
ANNOTATION, FIX = "hugealign.text", "hugealign.fix"
_LIMIT = 1 << 24  # bytes of a state or a configuration
_MOST_PIDS = 1 << 22  # PID_MAX_LIMIT of the kernel
_SECONDS = 20.0  # for all programs: an engine ends a hook that takes too long, and the container then fails
_MOST = 16  # programs of a container, and words of its command, to look at
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SCRIPT = re.compile(rb"#![ \t]*([^ \t\n]+)")


@dataclass(frozen=True, slots=True)
class Container:
    """A container: its process *pid*, its *root* directory, its command, and the programs asked for.

    *programs* are paths in the container; if empty, the programs of its command.
    """

    pid: int
    root: str
    words: tuple[str, ...] = ()
    path: str = _PATH
    cwd: str = "/"
    programs: tuple[str, ...] = ()
    fix: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """A program at *path* in the container: the *windows* of its copy, or the *reason* why there is no copy."""

    path: str
    windows: int = 0
    reason: str = ""


def container(state: bytes) -> Container | None:
    """Return the container whose *state* the engine gave; None if it asks for nothing.  Raises StageError."""
    found = _object(state, "the state")
    bundle, pid = _text(found, "bundle"), found.get("pid")
    if type(pid) is not int or not 0 < pid < _MOST_PIDS:
        raise StageError("the container has no pid")
    config = _object(_config(bundle), "config.json")
    annotations = _part(found, "annotations") | _part(config, "annotations")
    wanted = annotations.get(ANNOTATION)
    if not isinstance(wanted, str) or wanted in ("", "off"):
        return None
    process = _part(config, "process")
    variables = _words(process, "env")
    path = next((word.removeprefix("PATH=") for word in variables if word.startswith("PATH=")), _PATH)
    programs = () if wanted == "auto" else tuple(wanted.split(":"))[:_MOST]
    root = os.path.join(bundle, _text(_part(config, "root"), "path"))
    cwd = process.get("cwd")
    fix = annotations.get(FIX) == "true"
    words = tuple(_words(process, "args")[:_MOST])
    return Container(pid, root, words, path, cwd if isinstance(cwd, str) else "/", programs, fix)


def bind(wanted: Container, place: str = STORE) -> list[Bound]:
    """Stage the programs of *wanted* in the store at *place*, and mount their copies over them in the container.

    What is not staged after 20 s is left.  Raises HugealignError, OSError if nothing can be examined.
    """
    end = time.monotonic() + _SECONDS
    with contextlib.ExitStack() as open_files:
        root = open_files.enter_context(using(os.open(wanted.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)))
        layers = _layers(os.fstat(root).st_dev)
        done: list[Bound] = []
        trees: list[tuple[str, int]] = []
        for path in wanted.programs or tuple(dict.fromkeys(_commands(root, wanted))):
            try:
                with _until(end):
                    staged = _staged(root, layers, path, wanted, place)
                if staged.state != store.NO_WINDOW:
                    copy = open_files.enter_context(using(os.open(staged.link, os.O_PATH | os.O_CLOEXEC)))
                    trees.append((path, open_files.enter_context(using(foreign.tree(copy)))))
                    done.append(Bound(path, staged.windows))
                elif wanted.programs:
                    done.append(Bound(path, reason="its text has no whole window"))
            except (HugealignError, OSError) as error:
                done.append(Bound(path, reason=cause(error)))
        refused = dict(zip((path for path, _ in trees), foreign.place(wanted.pid, wanted.root, trees), strict=True))
        return [replace(one, reason=refused[one.path]) if refused.get(one.path) else one for one in done]


@contextlib.contextmanager
def _until(end: float) -> Iterator[None]:
    """Raise StageError if it is *end* (`time.monotonic`) before the block has ended: it may wait for a lock or a disk.

    A signal does it, so this is for the main thread.
    """

    def late(*_: object) -> None:
        raise StageError(f"no time left: the hook takes {_SECONDS:g} s at most")

    left = end - time.monotonic()
    if left <= 0:
        late()
    before = signal.signal(signal.SIGALRM, late)
    try:
        signal.setitimer(signal.ITIMER_REAL, left, 1)  # again each second, should somebody pass over the error
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _staged(root: int, layers: Sequence[str], path: str, wanted: Container, place: str) -> store.Staged:
    with using(rooted.opened(root, path, os.O_PATH)) as target:
        real = os.readlink(f"/proc/self/fd/{target}")
        source = _source(target, os.path.relpath(real, os.path.realpath(wanted.root)), layers) or real
    return store.stage(source, place, wanted.fix, private=True)


def _source(target: int, below: str, layers: Sequence[str]) -> str | None:
    """Return the file behind the open *target* in the topmost layer of the overlay that has it; None if none does.

    All containers of an image share the layers, and so the copy; each container has an overlay of its own.
    """
    seen = os.fstat(target)
    for layer in layers:
        try:
            with (
                using(os.open(layer, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as directory,
                using(rooted.beneath(directory, below)) as fd,
            ):
                info = os.fstat(fd)
                same = all(getattr(info, key) == getattr(seen, key) for key in ("st_size", "st_mtime_ns", "st_mode"))
                return os.readlink(f"/proc/self/fd/{fd}") if same and stat.S_ISREG(info.st_mode) else None
        except (OSError, rooted.RootedError):
            continue
    return None


def _layers(device: int) -> list[str]:
    """Return the directories of the overlay with the ``st_dev`` *device*, topmost first; none for another type."""
    mount = mounts.of_device(device)
    if mount is None or mount.kind != b"overlay":
        return []
    where = os.path.dirname(os.path.dirname(mounts.text(mount.place)))
    return [os.path.join(where, layer) for layer in _named(mounts.text(mount.options))]


def _named(options: str) -> list[str]:
    """Return the layers in the mount *options* of an overlay, topmost first."""
    found = dict(part.partition("=")[::2] for part in options.split(","))
    upper = [found["upperdir"]] if "upperdir" in found else []
    return upper + found.get("lowerdir", "").split(":")


def _commands(root: int, wanted: Container) -> Iterator[str]:
    """Yield the programs that the command's words name: the first word, an interpreter, what a script may execute."""
    for word in wanted.words:
        if not word or word.startswith("-"):
            continue
        places = [wanted.cwd] if "/" in word else wanted.path.split(":")
        for place in places:
            path = os.path.join("/", wanted.cwd, place, word)
            try:
                with using(rooted.opened(root, path)) as fd:
                    info = os.fstat(fd)
                    if not stat.S_ISREG(info.st_mode) or not info.st_mode & 0o111:
                        continue
                    head = os.pread(fd, 256, 0)
            except (OSError, HugealignError):
                continue
            if script := _SCRIPT.match(head):
                yield os.fsdecode(script[1])
            elif head.startswith(b"\x7fELF"):
                yield path
            break


def _config(bundle: str) -> bytes:
    try:
        with open(os.path.join(bundle, "config.json"), "rb") as file:
            return file.read(_LIMIT)
    except OSError as error:
        raise StageError(f"config.json: {error.strerror}") from error


def _object(data: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise StageError(f"{what} of the container is not a JSON object")
    return found


def _part(whole: dict[str, Any], key: str) -> dict[str, Any]:
    found = whole.get(key)
    return found if isinstance(found, dict) else {}


def _words(whole: dict[str, Any], key: str) -> list[str]:
    found = whole.get(key)
    return [word for word in found if isinstance(word, str)] if isinstance(found, list) else []


def _text(whole: dict[str, Any], key: str) -> str:
    found = whole.get(key)
    if not isinstance(found, str) or not found or "\0" in found:
        raise StageError(f"the container has no {key}")
    return found


def read_state() -> bytes:
    """Return the container's state, which the engine gives on standard input."""
    return sys.stdin.buffer.read(_LIMIT)
