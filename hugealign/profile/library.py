"""Libraries that only some formats need, which are imported when one turns up."""

import importlib
import site
from types import ModuleType

from hugealign.profile.model import ProfileError


def find(module: str, name: str, package: str) -> ModuleType:
    """Return a module.  Raises ProfileError naming what to install.

    The tool runs without the directories of installed packages (``python3 -S``), for a fast start.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        site.main()
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ProfileError(
            f"needs {name}, which is not installed (pip install {name}, or Debian: apt install {package})"
        ) from None
