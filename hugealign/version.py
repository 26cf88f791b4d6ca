"""The version, in a module of its own: reports name it, and the package itself imports nothing."""

__version__ = "0.1.0"
