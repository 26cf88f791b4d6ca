"""What is wrong, why, and what helps: as values, worded in one place."""
