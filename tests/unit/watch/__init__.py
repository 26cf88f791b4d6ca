"""hugealign/watch."""
