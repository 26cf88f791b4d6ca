"""Text in the page cache: measured, made huge, made small, and why not."""
