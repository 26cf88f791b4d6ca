"""This machine: its processes, its page cache."""
