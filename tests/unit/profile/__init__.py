"""profile: its parts alone, without a compiler."""
