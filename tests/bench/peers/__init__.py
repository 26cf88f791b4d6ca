"""hugealign against every other way to huge or ordered text that Debian has: same program, same trace, same run."""
