"""The machine: its kernel, memory, libraries and processor, and children for work that may hang or die."""
