#!/usr/bin/env python3
"""Build Debian's MariaDB once; link it plain, with hugealign and in the order of a profile; prove the difference.

``--help`` has the options; everything else is in examples/servers and server.py.
"""

import os
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_WORDS = [sys.executable, "-m", "examples.servers", "mysql", *sys.argv[1:]]
os.execve(sys.executable, _WORDS, {**os.environ, "PYTHONPATH": str(_ROOT)})  # noqa: S606
