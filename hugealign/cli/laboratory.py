"""Finds the commands of hugealign-lab.  Entry points are not seen: Python runs without site-packages (``-I -S``)."""

import importlib
import os
import sys

from hugealign.errors import HugealignError
from hugealign.io.resources import PACKAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


class NotInstalledError(HugealignError):
    """hugealign-lab is not installed beside hugealign."""


def command(name: str) -> "ModuleType":
    """Return the module of the laboratory's command *name*.

    An installed hugealign-lab lies beside hugealign: in the same site-packages, or below the same PREFIX/lib/hugealign.
    A checkout has it in lab/src.  Raises NotInstalledError.
    """
    checkout = os.path.join(os.path.dirname(PACKAGE), "lab", "src")
    if os.path.isdir(checkout) and checkout not in sys.path:
        sys.path.append(checkout)
    try:
        return importlib.import_module(f"hugealign_lab.commands.{name.replace('-', '_')}")
    except ModuleNotFoundError as error:
        if error.name != "hugealign_lab":
            raise
        raise NotInstalledError(
            f"{name}: hugealign-lab is not installed; install the package hugealign-lab from where hugealign came from"
        ) from None
