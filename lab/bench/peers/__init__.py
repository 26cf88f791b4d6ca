"""hugealign against every other way in Debian to huge or ordered text: same program, same trace, same run."""
