"""A link in the order of a profile: what the inputs have, and how each linker is told."""
