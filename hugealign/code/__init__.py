"""What machine code refers to."""
