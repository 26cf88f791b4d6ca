"""The launcher and the shim in POSIX sh, and the tables that they share with Python."""
