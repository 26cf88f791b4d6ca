"""Programs that others start: services of systemd and containers."""
