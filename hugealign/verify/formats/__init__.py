"""The forms of the report: one module each, with ``render``."""
