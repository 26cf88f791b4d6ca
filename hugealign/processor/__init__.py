"""What processors report about themselves, and what is published about them."""
