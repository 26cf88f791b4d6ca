"""Huge copies of text on tmpfs, under the paths of the originals: for file systems that keep no huge folios."""
