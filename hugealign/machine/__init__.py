"""The local machine: its kernel, its memory, its libraries, and children for work that may hang or die."""
