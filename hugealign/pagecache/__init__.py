"""Text in the page cache: measure it, make it huge or small, and explain failures."""
