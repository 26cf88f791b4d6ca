"""hugealign/run."""
