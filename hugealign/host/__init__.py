"""The machine at hand: its kernel, its processes, its page cache."""
