"""Where non-Python files are: beside the package in a checkout, inside it once installed; and where our cache is."""

import os

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def directory(name: str) -> str:
    """Return the absolute path of the data directory *name* (``ld-scripts``, ``cmake``, ``libexec``)."""
    inside = os.path.join(PACKAGE, name)
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(PACKAGE), name)


def cache() -> str:
    """Return the path of our directory in the user's cache (XDG Base Directory Specification 0.8)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "hugealign")
