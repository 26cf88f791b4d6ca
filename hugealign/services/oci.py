"""A hook for container engines: programs of an image run from huge copies, and the image stays as it is.

The engine starts `hugealign oci-hook` on the host, when the container has its mounts but not yet its root
(createRuntime, OCI runtime specification 1.0.2, "POSIX-platform Hooks"), with the container's state on standard input.
The hook stages each program on the host, once for all containers of the image's layer, and mounts the copy over it in
the container.

Image contents are untrusted: no path leads out of the container's root, and the hook never keeps a container from
starting.
"""

import contextlib
import ctypes
import json
import os
import re
import stat
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hugealign.diagnosis.refusal import DiagnosedError, RefusalError, diagnosed, error_name
from hugealign.diagnosis.values import Diagnosis, unpacked
from hugealign.errors import HugealignError
from hugealign.io import copying, mounts, places, replacing
from hugealign.io.descriptors import using
from hugealign.io.libc import libc
from hugealign.io.regular import FileError, opened, opened_at
from hugealign.run import copies, store
from hugealign.system import children, hooks, kernel, namespace, rooted
from hugealign.verification import inputs

#: No other user may enter it: not all users may read the contents of an image.
STORE = "/run/hugealign-containers"
FIX = "hugealign.fix"
_LIMIT = 1 << 24  # bytes of a state or a configuration
_MOST_PIDS = 1 << 22  # PID_MAX_LIMIT of the kernel
#: Seconds for the hook: an engine ends one that takes too long, and the container then fails.
SECONDS = 20.0
_MOST = 16  # programs of a container, and words of its command, to look at
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CLONE_NEWNS = 0x00020000  # linux/sched.h
_SCRIPT = re.compile(rb"#![ \t]*([^ \t\n]+)")


_HOOK = "hugealign.json"
_MODE = 0o644
_SECONDS = 60  # until an engine ends the hook
#: Engines start it for all containers, also of users, who cannot read that state, and after hugealign was removed.
_IF_THERE = 'if [ -r "$0" ] && [ -x "$1" ]; then "$@"; fi; exit 0'


def hook(command: str) -> str:
    """Return the text of the hook that starts the *command*, the path of hugealign (oci-hooks(5))."""
    words = {"path": command, "args": ["hugealign", "oci-hook"]}
    return _text_of(words, {"annotations": {f"^{re.escape(hooks.ANNOTATION)}$": "."}})


def machine_hook(command: str, state: str, fix: bool) -> str:
    """Return the text of the hook for all containers, which covers what the file *state* has; with *fix*, by fixes."""
    words = [command, "oci-hook", "--all", *(["--fix"] if fix else [])]
    return _text_of({"path": "/bin/sh", "args": ["sh", "-c", _IF_THERE, state, *words]}, {"always": True})


def _text_of(hook: Mapping[str, object], when: Mapping[str, object]) -> str:
    document = {
        "version": "1.0.0",
        "hook": {**hook, "timeout": _SECONDS},
        "when": when,
        "stages": ["createRuntime"],
    }
    return json.dumps(document, indent=2) + "\n"


def _place(name: str) -> str:
    """Return where podman looks for the hook *name*."""
    places = hooks.looked_in()
    return os.path.join(hooks.DEFAULT if hooks.DEFAULT in places or not places else places[-1], name)


def _written(path: str, text: str) -> None:
    """Write a hook.  Raises OSError."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    replacing.write(path, text.encode(), _MODE)


def install(command: str) -> str:
    """Write the hook where podman looks, and remove it elsewhere; return its path.  Raises OSError."""
    path = _place(_HOOK)
    _written(path, hook(command))
    uninstall(path)
    return path


def cover_all(command: str, state: str, fix: bool) -> None:
    """Write the hook for all containers where podman looks, and remove it elsewhere.  Raises DiagnosedError."""
    path = _place(hooks.MACHINE)
    try:
        _written(path, machine_hook(command, state, fix))
    except OSError as error:
        raise DiagnosedError("service.unit-file", file=path, error=error_name(error)) from error
    cover_none(path)


def missing() -> tuple[str, ...]:
    """Return the directories that `cover_all` makes, the outermost first."""
    above = [os.path.dirname(_place(hooks.MACHINE))]
    while not os.path.lexists(above[0]):
        above.insert(0, os.path.dirname(above[0]))
    return tuple(above[1:])


def remove_empty(directories: Sequence[str]) -> tuple[str, ...]:
    """Remove *directories* from `missing`; return those in which others have files by now."""
    for path in reversed(directories):
        with contextlib.suppress(OSError):
            os.rmdir(path)
    return tuple(filter(os.path.isdir, directories))


def cover_none(kept: str = "") -> list[str]:
    """Remove the hooks for all containers, except *kept*, and return their paths.  Raises DiagnosedError."""
    removed = [path for path in hooks.of_machine() if path != kept]
    for path in removed:
        try:
            os.unlink(path)
        except OSError as error:
            raise DiagnosedError("service.unit-file", file=path, error=error_name(error)) from error
    return removed


def uninstall(kept: str = "") -> list[str]:
    """Remove our hooks, except *kept*, and what they have said; return their paths.  Raises OSError, FileError."""
    removed = [path for path in hooks.files() if path != kept and hooks.is_ours(hooks.parsed(path).get("hook"))]
    for path in removed:
        os.unlink(path)
    hooks.forget()
    return removed


def rootless() -> bool:
    """Return whether this process is root in a user namespace alone, or not at all, and so may not stage for others."""
    with open("/proc/self/uid_map", encoding="ascii") as file:
        return bool(os.geteuid()) or file.read().split() != ["0", "0", "4294967295"]


@dataclass(frozen=True, slots=True)
class Container:
    """A container: its process *pid*, its *root* directory, its command, and the requested programs.

    *programs* are paths in the container, also of directories; if empty, the programs of its command.  In one that
    *is_steady*, root replaces no files.
    """

    pid: int
    root: str
    words: tuple[str, ...] = ()
    path: str = _PATH
    cwd: str = "/"
    programs: tuple[str, ...] = ()
    fix: bool = False
    is_steady: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """A program at *path* in the container: the *windows* of its copy; *diagnosis* says why there is none."""

    path: str
    windows: int = 0
    diagnosis: Diagnosis | None = None


def container(state: bytes, *, silent: bool = False) -> Container | None:
    """Return the container whose *state* the engine gave; None if it requests nothing.

    If it is to be *silent*, None if it says anything.  Raises HugealignError.
    """
    bundle_state = _object(state, "state")
    bundle, pid = _text(bundle_state, "bundle"), bundle_state.get("pid")
    if type(pid) is not int or not 0 < pid < _MOST_PIDS:
        raise DiagnosedError("container.description", part="pid")
    config = _object(_config(bundle), "config.json")
    annotations = _part(bundle_state, "annotations") | _part(config, "annotations")
    wanted = hooks.requested({"annotations": annotations})
    if hooks.annotated({"annotations": annotations}) if silent else not wanted:
        return None
    process = _part(config, "process")
    variables = _words(process, "env")
    path = next((word.removeprefix("PATH=") for word in variables if word.startswith("PATH=")), _PATH)
    programs = () if wanted in ("", "auto") else tuple(wanted.split(":"))[:_MOST]
    root = os.path.join(bundle, _text(_part(config, "root"), "path"))
    cwd = process.get("cwd")
    fix = annotations.get(FIX) == "true"
    words = tuple(_words(process, "args")[:_MOST])
    cwd = cwd if isinstance(cwd, str) else "/"
    return Container(pid, root, words, path, cwd, programs, fix, hooks.can_be_covered(config))


def bind(wanted: Container, place: str = STORE) -> Iterator[Bound]:
    """Stage the programs of *wanted* in the store at *place*, and mount their copies over them in the container.

    Raises OSError if nothing can be examined.
    """
    with using(os.open(wanted.root, os.O_PATH | os.O_DIRECTORY)) as root:
        layers = mounts.layers(os.fstat(root).st_dev)
        named = wanted.programs or tuple(dict.fromkeys(_commands(root, wanted)))
        for path in dict.fromkeys(target for name in named for target in _below(root, name)):
            bound = _bound(root, layers, path, wanted, place)
            if bound.windows or bound.diagnosis:
                yield bound
            elif path in wanted.programs:
                facts = {"page_size": kernel.huge_page_size()}
                yield Bound(path, diagnosis=Diagnosis("text.no-window", path, facts))


def cover(
    wanted: Container, files: Mapping[str, Collection[str]], included: Collection[str] = (), place: str = STORE
) -> Iterator[Bound]:
    """Mount copies over those of *files* that the container *wanted* has from its image, as `bind` does.

    *files* are paths in layers of images on the host, with the names of their states (`copies.identity`): what they
    are not, as a file that the container has changed, is left.  So is what the container may replace, unless it is
    *included*: a mount point cannot be replaced.  Raises OSError if nothing can be examined.
    """
    with using(os.open(wanted.root, os.O_PATH | os.O_DIRECTORY)) as root:
        layers = mounts.layers(os.fstat(root).st_dev)
        for layer in map(os.path.realpath, layers):
            for file, states in files.items():
                path = file.removeprefix(layer)
                if (
                    path != file
                    and path.startswith("/")
                    and (file in included or (wanted.is_steady and _is_closed(root, path)))
                ):
                    yield _bound(root, layers, path, wanted, place, states)


def _is_closed(root: int, path: str) -> bool:
    """Return whether only root of the container may replace the file at *path* below the open *root*."""
    with contextlib.suppress(RefusalError), using(rooted.resolve(root, os.path.dirname(path))) as directory:
        info = os.fstat(directory)
        return info.st_uid == os.fstat(root).st_uid and not info.st_mode & 0o022
    return False


def prepare(file: str, states: Collection[str], fix: bool, place: str = STORE) -> None:
    """Make the copy of a *file* of an image that `cover` mounts, if it has one of *states*.  Raises HugealignError."""
    with using(os.open(file, os.O_PATH | os.O_NOFOLLOW)) as source:
        if copies.identity(os.fstat(source), fixed=False) in states:
            _, copy = store.stage_privately(source, place, fix)
            if copy >= 0:
                os.close(copy)


def inodes(states: Collection[str], place: str = STORE) -> Iterator[int]:
    """Yield the inodes of the copies of files in one of these *states*."""
    for name in (name for state in states for name in (state, f"{state}{copies.FIXED}")):
        with contextlib.suppress(OSError):
            yield os.stat(os.path.join(place, name)).st_ino


def forget(files: Sequence[str], place: str = STORE) -> None:
    """Remove the copies of *files* that `prepare` and `cover` made; containers that run from one keep it."""
    with contextlib.suppress(HugealignError):  # at worst, they stay in memory until the system is shut down
        if files:
            store.drop(files, place)


def _below(root: int, path: str) -> list[str]:
    """Return the *path* in the container; of a directory, the files below it with enough text, the largest first.

    They are names only: whatever these lead to meanwhile, they are looked up again below the open *root*.
    """
    with contextlib.suppress(HugealignError, OSError), using(rooted.resolve(root, path)) as fd:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            top = f"/proc/self/fd/{fd}"
            return [path + place.path.removeprefix(top) for place in inputs.programs([top])]
    return [path]


def _bound(
    root: int,
    layers: Sequence[str],
    path: str,
    wanted: Container,
    place: str,
    states: Collection[str] | None = None,
) -> Bound:
    """Stage the program at *path*, if it has one of *states*, and mount its copy over it."""
    try:
        return Bound(path, _covered(root, layers, path, wanted, place, states))
    except (HugealignError, OSError) as error:
        return Bound(path, diagnosis=diagnosed(path, error))


def _covered(
    root: int, layers: Sequence[str], path: str, wanted: Container, place: str, states: Collection[str] | None
) -> int:
    """Return the windows of the copy, 0 without one.  Raises HugealignError, OSError."""
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(using(rooted.resolve(root, path)))
        below = os.path.relpath(*(os.readlink(f"/proc/self/fd/{fd}") for fd in (target, root)))
        source = _source(target, below, layers)
        if source >= 0:
            stack.callback(os.close, source)
        if states is not None and (source < 0 or copies.identity(os.fstat(source), fixed=False) not in states):
            return 0
        staged, copy = store.stage_privately(source if source >= 0 else target, place, wanted.fix)
        if copy >= 0:
            stack.callback(os.close, copy)
            _mounted(wanted.pid, wanted.root, path, target, copy)
        return staged.windows


def _mounted(pid: int, root: str, path: str, target: int, copy: int) -> None:
    """Mount the open file *copy* read-only over *path* below the directory *root*, as the process *pid* sees it.

    *target* is the file there as we see it, open: another one, which the process may have mounted over it, or which
    took its name meanwhile, is not covered.  The process may switch to another root later.  Raises RefusalError.
    """

    def work() -> object:
        try:
            _attach(pid, root, path, target, made)
        except (RefusalError, OSError) as error:
            return diagnosed(path, error).packed()
        return ()

    # A bind mount would not do: its source has to be in the same namespace.
    with using(namespace.tree(copy)) as made:
        reply = children.result(work)
    if reply is None:
        raise RefusalError("process.ended")
    if reply:
        raise RefusalError.of(unpacked(reply))


def _attach(pid: int, root: str, path: str, target: int, made: int) -> None:
    with using(os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)) as theirs:
        if libc().setns(theirs, _CLONE_NEWNS):
            raise namespace.no_mounts("setns", ctypes.get_errno())
    with (
        using(os.open(root, os.O_PATH | os.O_DIRECTORY)) as top,
        using(rooted.resolve(top, path)) as there,
    ):
        if not os.path.samestat(os.fstat(there), os.fstat(target)):
            raise RefusalError(copying.CHANGED)
        namespace.attach(made, there)


def _source(target: int, below: str, layers: Sequence[str]) -> int:
    """Return the file behind the open *target* in the topmost layer of the overlay that has it; -1 if none does.

    All containers of an image share the layers, and so the copy; each container has an overlay of its own.
    """
    seen = os.fstat(target)
    for layer in layers:
        try:
            with using(os.open(layer, os.O_PATH | os.O_DIRECTORY)) as directory:
                fd = places.beneath(directory, below, os.O_PATH)
        except (OSError, ValueError):
            continue
        info = os.fstat(fd)
        if all(getattr(info, key) == getattr(seen, key) for key in ("st_size", "st_mtime_ns", "st_mode")):
            return fd
        os.close(fd)
        break
    return -1


def _commands(root: int, wanted: Container) -> Iterator[str]:
    """Yield the programs that the command's words name: the first word, an interpreter, what a script may execute."""
    for word in wanted.words:
        if not word or word.startswith("-"):
            continue
        for place in [wanted.cwd] if "/" in word else dict.fromkeys(wanted.path.split(":")):
            path = os.path.join("/", wanted.cwd, place, word)
            try:
                with using(rooted.resolve(root, path)) as file:
                    if not os.fstat(file).st_mode & 0o111:
                        continue
                    with opened_at(file) as fd:
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
        with opened(os.path.join(bundle, "config.json")) as fd, open(fd, "rb", closefd=False) as file:
            return file.read(_LIMIT)
    except FileError as error:
        raise DiagnosedError("container.description", part="config.json", error=error_name(error)) from error


def _object(data: bytes, what: str) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise DiagnosedError("container.description", part=what)
    return document


def _part(whole: dict[str, Any], key: str) -> dict[str, Any]:
    part = whole.get(key)
    return part if isinstance(part, dict) else {}


def _words(whole: dict[str, Any], key: str) -> list[str]:
    words = whole.get(key)
    return [word for word in words if isinstance(word, str)] if isinstance(words, list) else []


def _text(whole: dict[str, Any], key: str) -> str:
    text = whole.get(key)
    if not isinstance(text, str) or not text or "\0" in text:
        raise DiagnosedError("container.description", part=key)
    return text


def read_state() -> bytes:
    """Return the container's state, which the engine gives on standard input."""
    return sys.stdin.buffer.read(_LIMIT)
