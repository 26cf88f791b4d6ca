"""Programs inside archives: one module per format, each a forward-only reader of members; `programs` combines them.

Nothing is ever extracted to a path that an archive names: a member that begins like an ELF file is copied to an
unnamed temporary file, and everything else is skipped.
"""

#: The kinds of files that are skipped without a report: keys of a `collections.Counter`.
OBJECT, OTHER, LINK = "objects", "others", "links"
