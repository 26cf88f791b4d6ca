"""Reading ahead, so that the tool that prints and hugealign, which reads, work in parallel.

A pipe holds 1 MiB (/proc/sys/fs/pipe-max-size, pipe(7)): if its reader is busy for a second, the tool waits as long.
"""

import contextlib
import queue
import threading
from typing import BinaryIO

from hugealign.io.execution import start_thread

_CHUNK = 1 << 20
_CHUNKS = 64  # the most that wait


class Ahead:
    """A stream that a thread reads, up to 64 MiB ahead."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.chunks: queue.Queue[bytes | OSError] = queue.Queue(_CHUNKS)
        self.rest = b""
        self.wanted = True
        self.thread = threading.Thread(target=self._fetch, daemon=True)
        start_thread(self.thread)

    def _fetch(self) -> None:
        chunk: bytes | OSError = b"more"
        while self.wanted and chunk and not isinstance(chunk, OSError):
            try:
                chunk = self.stream.read(_CHUNK)
            except OSError as error:
                chunk = error
            self.chunks.put(chunk)

    def read(self, size: int = _CHUNK) -> bytes:
        """Return at most *size* bytes, none at the end."""
        if not self.rest:
            chunk = self.chunks.get()
            if isinstance(chunk, OSError):
                raise chunk
            if not chunk:
                self.chunks.put(chunk)  # the end stays the end
            self.rest = chunk
        data, self.rest = self.rest[:size], self.rest[size:]
        return data

    def close(self) -> None:
        """Stop reading, once the read in progress has ended."""
        self.wanted = False
        while self.thread.is_alive():
            with contextlib.suppress(queue.Empty):
                self.chunks.get(timeout=0.01)
