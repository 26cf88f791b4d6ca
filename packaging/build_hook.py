"""What hatchling runs before it builds the wheel: the manual pages, which no checkout holds."""

import os
import subprocess
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualPages(BuildHookInterface):  # type: ignore[misc]
    """Make share/man, which the wheel takes with the rest of share/."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Run man.py; hatchling gives the *version* of the wheel's format and its *build_data*."""
        del version, build_data
        subprocess.run([sys.executable, "-I", "-S", os.path.join(self.root, "packaging", "man.py")], check=True)
