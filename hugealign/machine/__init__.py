"""The machine at hand: its kernel, its memory, its libraries, and children that may hang or die."""
