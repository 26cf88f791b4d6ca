"""Properties of hugealign/watch."""
