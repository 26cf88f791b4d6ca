"""`hugealign run` and `stage`: start a program with huge text, from copies on tmpfs where nothing else keeps it."""
