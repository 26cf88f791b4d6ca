"""What a link does: the linker's command line, a recipe per linker, and the shim that joins them."""
