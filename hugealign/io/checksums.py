"""Tell files whose names are digests of their contents: a program that unpacks such a file checks it at each start."""

import os

#: By the number of hexadecimal digits.
_ALGORITHMS = {40: "sha1", 64: "sha256", 96: "sha384", 128: "sha512"}
_DIGITS = frozenset("0123456789abcdef")


def names_contents(path: str, fd: int) -> bool:
    """Return whether the name at *path* of the open file *fd* holds a digest of its contents.  Raises OSError."""
    words = "".join(c if c in _DIGITS else " " for c in os.path.basename(path)).split()
    for word in words:
        if algorithm := _ALGORITHMS.get(len(word)):
            import hashlib  # few names have so many digits

            with open(fd, "rb", closefd=False) as file:
                file.seek(0)
                if hashlib.file_digest(file, algorithm).hexdigest() == word:
                    return True
    return False
