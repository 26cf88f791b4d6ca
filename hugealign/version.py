"""The version, in a module of its own: reports name it, and the package itself imports nothing."""

__version__ = "1.0.1"
