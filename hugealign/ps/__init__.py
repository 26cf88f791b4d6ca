"""`hugealign ps`: which text runs from huge pages, and why the rest does not."""
