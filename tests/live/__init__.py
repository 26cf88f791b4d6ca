"""Tests that need this kernel: the page cache and real processes."""
