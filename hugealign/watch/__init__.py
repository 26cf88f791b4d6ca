"""Running processes: which text is huge, why the rest is not, and what helps."""
