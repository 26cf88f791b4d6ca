"""What our C does, in Python."""
