"""Generated inputs, held against what the kernel and real tools do with them: commands with a seed."""
