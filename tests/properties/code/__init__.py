"""Properties of hugealign/code."""
