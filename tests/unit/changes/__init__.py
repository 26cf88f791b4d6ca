"""hugealign/changes."""
