"""Unit tests of hugealign.fixing.separation."""
