"""From a profile's functions to their order in the text.  Pure: no I/O."""
