"""Traces of the code that runs, and the instruction TLB misses that they would cause under other layouts."""

__version__ = "1.0.1"
