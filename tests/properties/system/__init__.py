"""Properties of hugealign/system."""
