"""hugealign/verification/archives."""
