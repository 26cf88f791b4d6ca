"""The decoder of x86-64 code, which is no part of hugealign: capstone."""

import importlib
import importlib.machinery
import sys
from types import ModuleType

from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import Remedy
from hugealign.elf.image import EM_X86_64, Image

_NAME = "capstone"
_INSTALL = (sys.executable, "-m", "pip", "install", _NAME)


def load() -> ModuleType:
    """Return capstone.  Raises RefusalError if it is not installed."""
    try:
        return importlib.import_module(_NAME)
    except ImportError:
        _look_further()
    try:
        return importlib.import_module(_NAME)
    except ImportError:
        raise _missing() from None


def needed(image: Image) -> None:
    """Raise RefusalError if a search through the code of *image* needs a decoder, and there is none; load nothing."""
    if image.e_machine == EM_X86_64 and not _is_there():
        _look_further()
        if not _is_there():
            raise _missing()


def _is_there() -> bool:
    there = sys.modules.get(_NAME, _NAME)  # None: a module that must not be imported
    return there is not None and importlib.machinery.PathFinder.find_spec(_NAME) is not None


def _look_further() -> None:
    import site

    site.main()  # Python is run without installed packages


def _missing() -> RefusalError:
    return RefusalError("fix.no-decoder", Remedy("install-decoder", _INSTALL))
