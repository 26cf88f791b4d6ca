"""Properties of hugealign/io."""
