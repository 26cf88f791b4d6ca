"""Print what pip is to install for the named dependency groups of pyproject.toml (pip itself: since 25.1)."""

import sys
import tomllib
from pathlib import Path

GROUPS = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]

for group in sys.argv[1:]:
    print("\n".join(GROUPS[group]))
