"""Files of packages of the distribution: dpkg --verify reports a change of one in place, and an upgrade undoes it."""

import contextlib
import functools
import os

_LISTS = "/var/lib/dpkg/info"
_MERGED = "/usr"  # lists may name what is below /usr by the link to it, from before these directories were one


@functools.lru_cache(maxsize=64)
def packaged(path: str) -> bool:
    """Return whether a package of dpkg has the file at *path*."""
    real = os.path.realpath(path)
    if real.startswith(("/home/", "/root/", "/tmp/", "/var/tmp/", "/usr/local/")):  # noqa: S108  # nothing is made there
        return False
    names = (real, real.removeprefix(_MERGED))
    lines = [b"\n%b\n" % os.fsencode(name) for name in names if "\n" not in name]
    with contextlib.suppress(OSError):
        for name in os.listdir(_LISTS):
            if name.endswith(".list"):
                with open(os.path.join(_LISTS, name), "rb") as file:
                    text = b"\n%b\n" % file.read()
                if any(line in text for line in lines):
                    return True
    return False
