"""Huge copies of text on tmpfs, mounted over the originals: for file systems that keep no huge folios."""
