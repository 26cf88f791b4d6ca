"""Where the files that are not Python lie: beside the package in a checkout, inside it once installed."""

import os

PACKAGE = os.path.dirname(os.path.abspath(__file__))


def directory(name: str) -> str:
    """Return the absolute path of the data directory *name* (``ld-scripts``, ``cmake``, ``libexec``)."""
    inside = os.path.join(PACKAGE, name)
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(PACKAGE), name)
