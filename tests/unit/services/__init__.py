"""hugealign/services."""
