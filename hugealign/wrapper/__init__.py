"""What a compilation needs: the LLVM pass plugin, and the block list of an order."""
