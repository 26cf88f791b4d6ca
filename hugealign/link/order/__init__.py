"""A link in the order of a profile: find the inputs' sections, and write the order for each linker."""
