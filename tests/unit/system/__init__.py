"""hugealign/system."""
