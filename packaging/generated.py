"""Files of the checkout that are made of the command line's own tables: written, or with ``--check`` only compared."""

import os
import sys
from collections.abc import Mapping

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CHECKING = "--check" in sys.argv


def write(texts: Mapping[str, str], target: str) -> None:
    """Write *texts*, by paths below ROOT, where they differ.

    With ``--check`` say which do, and what the *target* of make is, and end.
    """
    result: list[str] = []
    for name, text in texts.items():
        path = os.path.join(ROOT, name)
        try:
            with open(path, encoding="utf-8") as file:
                same = file.read() == text
        except FileNotFoundError:
            same = False
        if same:
            continue
        result.append(name)
        if not CHECKING:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    if result and CHECKING:
        sys.exit(f"stale: {' '.join(result)}; run: make {target}")
