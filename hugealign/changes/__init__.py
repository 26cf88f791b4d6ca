"""What hugealign has changed on this machine, and how that is undone."""
