"""Where container engines look for hooks (oci-hooks(5)), which start `hugealign oci-hook`, and what that said."""

import glob
import json
import os
import socket
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from hugealign.io.descriptors import using
from hugealign.io.regular import FileError, opened

#: Where podman and CRI-O look by default.  podman looks in the other place only if `hooks_dir` names it.
DEFAULT, OTHER = "/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d"
#: containers.conf(5): later files win.
_CONFIGURATIONS = (
    "/usr/share/containers/containers.conf",
    "/etc/containers/containers.conf",
    "/etc/containers/containers.conf.d/*.conf",
)
#: By this annotation a container requests huge text.
ANNOTATION = "hugealign.text"
#: The hook of `hugealign enable --all`, which engines start for all containers.
MACHINE = "hugealign-all.json"
_LIMIT = 1 << 20  # bytes of a configuration
#: What the hook had to say last.  Engines hide what a hook prints.
_SAID = "/run/hugealign-oci-hook"
_LOG = "/dev/log"
_LONGEST = 4096  # bytes of a line
_WARNING = 3 << 3 | 4  # LOG_DAEMON, LOG_WARNING: syslog(3)


def looked_in(configurations: Sequence[str] = _CONFIGURATIONS) -> list[str]:
    """Return the directories in which podman looks for hooks, as root and without options, by its *configurations*."""
    places: list[str] = [DEFAULT]
    for path in (path for pattern in configurations for path in sorted(glob.glob(pattern))):
        with suppress(ValueError, RecursionError, FileError):
            engine = tomllib.loads(text(path)).get("engine")
            named = engine.get("hooks_dir") if isinstance(engine, dict) else None
            if isinstance(named, list):
                kept = places if {"append": True} in named else []
                places = [*kept, *(place for place in named if isinstance(place, str) and place.startswith("/"))]
    return list(dict.fromkeys(places))


def files() -> Iterator[str]:
    """Yield the paths of all hooks where engines may look."""
    for place in dict.fromkeys((*looked_in(), DEFAULT, OTHER)):
        yield from sorted(glob.glob(f"{glob.escape(place)}/*.json"))


def is_ours(hook: object) -> bool:
    """Return whether the *hook* of a container (runtime-spec/config.md) starts `hugealign oci-hook` for annotations."""
    if not isinstance(hook, dict) or not isinstance(hook.get("args"), list):
        return False
    return "oci-hook" in hook["args"] and os.path.basename(str(hook.get("path"))).startswith("hugealign")


def of_machine() -> list[str]:
    """Return the paths of the hooks that `hugealign enable --all` has written where engines may look."""
    places = dict.fromkeys((*looked_in(), DEFAULT, OTHER))
    return [path for path in (os.path.join(place, MACHINE) for place in places) if os.path.lexists(path)]


def starts_ours(configuration: dict[str, Any]) -> bool:
    """Return whether one of the hooks in the *configuration* of a container (runtime-spec/config.md) is ours."""
    given = configuration.get("hooks")
    stages = given.values() if isinstance(given, dict) else ()
    return any(is_ours(hook) for stage in stages if isinstance(stage, list) for hook in stage)


def requested(configuration: dict[str, Any]) -> str:
    """Return what the container of the *configuration* requests of the hook, empty if nothing."""
    annotations = configuration.get("annotations")
    wanted = annotations.get(ANNOTATION) if isinstance(annotations, dict) else None
    return wanted if isinstance(wanted, str) and wanted != "off" else ""


def can_be_covered(configuration: dict[str, Any]) -> bool:
    """Return whether files can be covered in a container of the *configuration* that has not requested that.

    One that root may replace there cannot: what is a mount point cannot be renamed over (EBUSY), as package managers
    do.
    """
    root, process = configuration.get("root"), configuration.get("process")
    user = process.get("user") if isinstance(process, dict) else None
    uid = user.get("uid") if isinstance(user, dict) else None
    is_root = not isinstance(uid, int) or uid == 0
    return not is_root or (isinstance(root, dict) and root.get("readonly") is True)


def annotated(configuration: dict[str, Any]) -> bool:
    """Return whether the container of the *configuration* says by our annotation what it wants, even if nothing."""
    annotations = configuration.get("annotations")
    return isinstance(annotations, dict) and ANNOTATION in annotations


def installed() -> bool:
    """Return whether podman finds our hook.  Raises FileError."""
    places = looked_in()
    return any(is_ours(parsed(path).get("hook")) for path in files() if os.path.dirname(path) in places)


def parsed(path: str) -> dict[str, Any]:
    """Return the object in the JSON file at *path*, an empty one for anything else.  Raises FileError."""
    with suppress(ValueError, RecursionError):
        document = json.loads(text(path))
        return document if isinstance(document, dict) else {}
    return {}


def text(path: str, limit: int = _LIMIT) -> str:
    """Return the beginning of the regular file at *path*, nothing of anything else.  Raises FileError."""
    if not os.path.isfile(path):  # as a unit that is masked
        return ""
    with opened(path, empty=True) as fd:
        return os.read(fd, limit).decode(errors="replace")


def say(line: str) -> None:
    """Pass the *line* to the system's log and, as root, keep it for `said`; whatever fails, nothing waits."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as log:
        log.sendto(f"<{_WARNING}>hugealign[{os.getpid()}]: {line}".encode(errors="replace"), _LOG)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError), using(os.open(_SAID, flags, 0o600)) as file:
        os.write(file, line.encode(errors="replace"))


def said() -> str:
    """Return what the hook had to say last, empty if that is nothing or only root may read it."""
    with suppress(FileError):
        return text(_SAID, _LONGEST)
    return ""


def forget() -> None:
    """Remove what the hook has said."""
    with suppress(OSError):
        os.unlink(_SAID)
