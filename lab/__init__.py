"""The laboratory: hugealign-lab in ``src``, its tests, and the benches that compare orders by simulation."""

import os
import sys

# A checkout is not installed: make hugealign_lab importable, for `pytest lab` and `python -m lab.bench.NAME`.
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "src"))
