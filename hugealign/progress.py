"""A line of progress on a terminal, for work that takes longer than a second."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hugealign.units import printable

_PATIENCE = 1.0  # seconds without a word
_INTERVAL = 0.1  # seconds between two words


class Progress:
    """Called with the amount done and the whole; writes to stderr if that is a terminal."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._next = time.monotonic() + _PATIENCE
        self._width = 0

    def __call__(self, done: int, total: int) -> None:
        """Show that *done* of *total* windows are done, if it is time to."""
        self.say(f"{done} of {total} windows")

    def say(self, text: str) -> None:
        """Show *text* behind the title, if it is time to."""
        now = time.monotonic()
        if now < self._next or not sys.stderr.isatty():
            return
        self._next = now + _INTERVAL
        self._show(f"{self._title}: {text}")

    def clear(self) -> None:
        """Remove the line, if there is one."""
        if self._width:
            self._show("")

    def _show(self, text: str) -> None:
        print(f"\r{text.ljust(self._width)}", end="\r" if not text else "", file=sys.stderr, flush=True)
        self._width = len(text)


@contextmanager
def shown(path: str) -> Iterator[Progress]:
    """Show progress on the file at *path* meanwhile."""
    progress = Progress(printable(path))
    try:
        yield progress
    finally:
        progress.clear()
