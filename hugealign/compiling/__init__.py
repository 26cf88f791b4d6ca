"""What a compilation needs from an order file."""
