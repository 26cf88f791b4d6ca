"""What somebody else starts: services of systemd and containers."""
