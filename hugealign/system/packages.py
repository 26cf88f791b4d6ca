"""Files of packages of the distribution: dpkg --verify reports a change of one in place, and an upgrade undoes it."""

import contextlib
import functools
import os

_LISTS = "/var/lib/dpkg/info"
_MERGED = "/usr"  # lists may name what is below /usr by the link to it, from before these directories were one


def packaged(path: str) -> bool:
    """Return whether a package of dpkg has the file at *path*."""
    real = os.path.realpath(path)
    if real.startswith(("/home/", "/root/", "/tmp/", "/var/tmp/", "/usr/local/")):  # noqa: S108  # nothing is made there
        return False
    names = (real, real.removeprefix(_MERGED))
    return any(b"\n%b\n" % os.fsencode(name) in _listed() for name in names if "\n" not in name)


@functools.cache
def _listed() -> bytes:
    """Return the names of all files of packages, a line each: 6 MB where a thousand packages are installed."""
    texts = [b""]
    with contextlib.suppress(OSError):
        for name in os.listdir(_LISTS):
            if name.endswith(".list"):
                with open(os.path.join(_LISTS, name), "rb") as file:
                    texts.append(file.read())
    return b"\n".join(texts)
