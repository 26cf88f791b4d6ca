"""Measure what huge text, or another build, saves of a command's time: `hugealign measure`."""
