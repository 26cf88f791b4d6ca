"""What a compilation needs of an order file."""
