"""map: its parts alone, without a compiler."""
