"""ordering: its parts alone, without a compiler."""
