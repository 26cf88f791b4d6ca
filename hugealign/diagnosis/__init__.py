"""What is not as it should be, why, and what changes it: as values, worded in one place."""
