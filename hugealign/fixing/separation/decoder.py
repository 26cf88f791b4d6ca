"""The decoder of x86-64 code, which is no part of hugealign: capstone."""

import contextlib
import functools
import importlib
import importlib.machinery
import sys
from types import ModuleType

from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import Remedy
from hugealign.elf.image import EM_X86_64, Image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAME = "capstone"


def load() -> ModuleType:
    """Return capstone.  Raises RefusalError if it is not installed."""
    for look in (None, _look_further, _hook):
        if look:
            look()
        with contextlib.suppress(ImportError):
            return importlib.import_module(_NAME)
    raise _missing()


def needed(image: Image) -> None:
    """Raise RefusalError if a search through the code of *image* needs a decoder, and there is none; load nothing."""
    if image.e_machine == EM_X86_64 and not _is_there():
        _look_further()
        if not _is_there():
            raise _missing()


def _is_there() -> bool:
    there = sys.modules.get(_NAME, _NAME)  # None: a module that must not be imported
    return there is not None and importlib.machinery.PathFinder.find_spec(_NAME) is not None


#: What finds modules for other packages: that of setuptools takes 0.3 s, and Python 3.11 has what it replaces.
_hooks: "list[Any]" = []


@functools.cache  # a report asks for each of its files
def _look_further() -> None:
    """Also look among installed packages; Python is run without them."""
    import site

    known = list(sys.meta_path)
    site.main()
    _hooks.extend(finder for finder in sys.meta_path if finder not in known)
    sys.meta_path[:] = known


def _hook() -> None:
    sys.meta_path[:0] = _hooks


def _missing() -> RefusalError:
    """Return the refusal; the command installs it, which pip does in a virtual environment alone (PEP 668)."""
    pip = sys.prefix != sys.base_prefix and importlib.machinery.PathFinder.find_spec("pip")
    command = (sys.executable, "-m", "pip", "install", _NAME) if pip else ()
    return RefusalError("fix.no-decoder", Remedy("install-decoder", command))
