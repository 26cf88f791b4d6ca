"""lab: its parts alone, without a compiler."""
