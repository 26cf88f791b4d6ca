"""Files in memory for the linker to read, which vanish with us however we end."""

import os


class Memory:
    """The files of one run of the linker.  *names* says for the path of each what it was made from, for messages."""

    __slots__ = ("names",)

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def file(self, name: str, data: bytes, source: str) -> str:
        """Return a path, good in our children too, of a file *name* of *data*; *source* is what it was made from."""
        fd = os.memfd_create(name, 0)
        written = 0
        while written < len(data):
            written += os.write(fd, data[written:])
        path = f"/proc/self/fd/{fd}"
        self.names[path] = source
        return path
