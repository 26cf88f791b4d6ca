"""What processors say of themselves, and what is published about them."""
