"""Move the text of a linked file, and what follows it, away from what lies before it: whole windows without data."""
