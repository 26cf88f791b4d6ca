"""What a check passes over without a report of its own, by what it is: keys of a `collections.Counter`."""

OBJECT, OTHER, LINK = "objects", "others", "links"
