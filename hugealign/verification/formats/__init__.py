"""The forms of the report: one module each, with ``render``, and imported only when asked for.  Pure."""
