"""hugealign/io."""
