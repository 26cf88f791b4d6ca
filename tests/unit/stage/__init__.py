"""hugealign/stage."""
