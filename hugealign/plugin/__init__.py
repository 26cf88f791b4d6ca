"""The LLVM pass plugin: built for each LLVM, and listed for the launcher and the shim."""
