"""Tell files that a program has unpacked into a cache: it compares them with what it holds, and rejects fixed ones."""

import os
import stat

#: By the number of hexadecimal digits.
_ALGORITHMS = {40: "sha1", 64: "sha256", 96: "sha384", 128: "sha512"}
_DIGITS = frozenset("0123456789abcdef")


def cached(path: str, fd: int) -> bool:
    """Return whether a program has unpacked the open file *fd* at *path* for later starts.  Raises OSError.

    Its name then holds a digest of its contents, or it is what mkstemp(3) makes in a directory for temporary files.
    """
    return _is_temporary(path, fd) or _names_contents(path, fd)


def _is_temporary(path: str, fd: int) -> bool:
    if os.fstat(fd).st_mode & ~(stat.S_IFREG | stat.S_IRUSR | stat.S_IWUSR):
        return False
    try:
        return bool(os.stat(os.path.dirname(path) or ".").st_mode & stat.S_ISVTX)
    except OSError:  # the path is one inside a container
        return False


def _names_contents(path: str, fd: int) -> bool:
    words = "".join(c if c in _DIGITS else " " for c in os.path.basename(path)).split()
    for word in words:
        if algorithm := _ALGORITHMS.get(len(word)):
            import hashlib  # few names are that long

            with open(fd, "rb", closefd=False) as file:
                file.seek(0)
                if hashlib.file_digest(file, algorithm).hexdigest() == word:
                    return True
    return False
