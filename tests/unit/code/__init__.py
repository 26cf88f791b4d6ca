"""hugealign/code."""
