"""The files that a service sees: below its own root directory, and through the mounts that its unit makes.

systemd makes these for each process that it starts (systemd.exec(5), "Paths" and "Sandboxing"), so they cannot be
looked at before.  They are computed here, and a unit with a setting that cannot be is refused.
"""

import errno
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hugealign.diagnosis.refusal import RefusalError
from hugealign.errors import HugealignError

#: Settings that bring files from an image, or make a root for one start alone.
_IMAGES = ("RootImage", "RootMStack", "RootEphemeral", "MountImages", "ExtensionImages", "ExtensionDirectories")
_BINDS = ("BindPaths", "BindReadOnlyPaths")
#: Settings that hide what is below directories: for each value, which.
_HOMES, _TEMPORARY = ("/home", "/root", "/run/user"), ("/tmp", "/var/tmp")  # noqa: S108  # names only
_HIDING: dict[str, dict[str, tuple[str, ...]]] = {
    "ProtectHome": {"yes": _HOMES, "tmpfs": _HOMES},
    "PrivateTmp": {"yes": _TEMPORARY, "disconnected": _TEMPORARY},
}
#: Settings that mount on each path that they name.
_MOUNTING = ("TemporaryFileSystem", "InaccessiblePaths", "ReadOnlyPaths", "ReadWritePaths", "NoExecPaths")
_COVERING = ("TemporaryFileSystem", "InaccessiblePaths")
#: All settings that decide which files a service sees.
SETTINGS = ("RootDirectory", *_IMAGES, *_BINDS, *_HIDING, *_MOUNTING)
#: Values of a setting that is off.
NOTHING = ("", "no", "false", "off", "0", "[not set]")
_MOST_LINKS = 40  # MAXSYMLINKS in include/linux/namei.h


@dataclass(frozen=True, slots=True)
class Found:
    """A file that a service sees at *target*: here it is at *source*.  Neither has links."""

    source: str
    target: str


class View:
    """What a service with *settings*, values by name, sees.  Raises RefusalError if that cannot be known.

    Mounts from *own*, a directory of ours, are not the unit's.
    """

    def __init__(self, settings: Mapping[str, str], own: str) -> None:
        for name in _IMAGES:
            if settings.get(name, "").lower() not in NOTHING:
                raise RefusalError("service.image", setting=name)
        root = settings.get("RootDirectory", "").removeprefix("-") or "/"
        #: Where mounts are, with what is there: a path here, or a setting that hides it.
        self._places: dict[str, tuple[str, str]] = {"/": (os.path.realpath(root), "")}
        self._taken: dict[str, str] = {}
        for target, source, setting in sorted(_mounts(settings, own)):
            place = self._real(target)
            self._taken[place] = setting
            if source or setting in _COVERING or setting in _HIDING:
                self._places[place] = (os.path.realpath(source) if source else "", setting)

    def find(self, name: str) -> Found:
        """Return the file that the service sees at the absolute path *name*.  Raises OSError, RefusalError."""
        at, links = "", 0
        waiting = _parts(name)
        while waiting:
            part = waiting.pop()
            if part == "..":
                at = at.rpartition("/")[0]
                continue
            place = f"{at}/{part}"
            link = None if self._is_mount_point(place) else _link(self._here(place))
            if link is None:
                at = place
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            at = "" if link.startswith("/") else at
            waiting += _parts(link)
        return Found(self._here(at or "/"), at or "/")

    def covered(self, found: Found) -> str:
        """Return the setting by which the unit mounts something exactly on the file; empty if it does not.

        systemd keeps one mount for a path, so ours could be in the place of the unit's.
        """
        return self._taken.get(found.target, "")

    def shows(self, name: str, found: Found) -> bool:
        """Return whether *name* leads to the *found* file also here, outside the service."""
        return found.source == found.target == os.path.realpath(name) and os.path.normpath(name) == name

    def _real(self, target: str) -> str:
        try:
            return self.find(target).target
        except (OSError, HugealignError):  # systemd ignores it, or makes it
            return os.path.normpath(target)

    def _here(self, place: str) -> str:
        at = place
        while at not in self._places:
            at = at.rpartition("/")[0] or "/"
        source, setting = self._places[at]
        if not source:
            raise RefusalError("service.own-mount", file=place, setting=setting)
        return os.path.normpath(os.path.join(source, place[len(at) :].lstrip("/")))

    def _is_mount_point(self, place: str) -> bool:
        """Return whether a mount is at *place*, or below it: then it is a directory there, even if it is hidden."""
        return any(f"{point}/".startswith(f"{place}/") for point in self._places)


def binds(settings: Mapping[str, str], own: str) -> bool:
    """Return whether the unit itself binds something, so that it has mounts of its own anyway."""
    return any(setting in _BINDS for _, _, setting in _mounts(settings, own))


def _mounts(settings: Mapping[str, str], own: str) -> Iterator[tuple[str, str, str]]:
    """Yield where the unit mounts, what (a path, or nothing), and by which setting."""
    # Ours may have a space in its name; the target is the end of the source, or else has none.
    ours = re.compile(rf"-{re.escape(own)}/for/[^/]+(?:/.*?)?(/.+?):\1(?::n?o?rbind)?(?= |$)")
    for name in _BINDS:
        for word in ours.sub("", settings.get(name, "")).split():
            # src:dst:rbind; a name with a space or a colon looks like two.
            parts = word.removeprefix("-").split(":")
            if len(parts) > 3 or not parts[0].startswith("/"):
                raise RefusalError("service.mounts-unread", setting=name, value=word)
            source, target = parts[0], parts[1] if len(parts) > 1 and parts[1] else parts[0]
            if not source.startswith(f"{own}/"):
                yield target, source, name
    for name, values in _HIDING.items():
        for place in values.get(settings.get(name, "").lower(), ()):
            yield place, "", name
    for name in _MOUNTING:
        for word in settings.get(name, "").split():
            target = re.sub("^[-+]+", "", word).partition(":")[0]
            if target.startswith("/"):
                yield target, "", name


def _parts(path: str) -> list[str]:
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _link(path: str) -> str | None:
    """Return what the link at *path* says, None for anything else that is there.  Raises OSError."""
    try:
        return os.readlink(path)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
