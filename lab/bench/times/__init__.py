"""Orders, PGO and BOLT in processor time: ``python -m lab.bench.times``."""
