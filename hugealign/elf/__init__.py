"""What an ELF file says about the placement of its text."""
