"""hugealign: a program's text on huge pages, from the link to the running process."""

__version__ = "0.1.0"
