"""hugealign/wrapper."""
