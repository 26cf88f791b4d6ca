"""The laboratory's commands: one module each, as in hugealign.cli."""
