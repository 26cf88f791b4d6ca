"""A line of progress on a terminal, for work that takes longer than a second."""

import sys
import time

_PATIENCE = 1.0  # seconds without a word
_INTERVAL = 0.1  # seconds between two words


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


class Progress:
    """Called with the amount done and the whole; writes to stderr if that is a terminal; clears its line at exit."""

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

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        if self._width:
            self._show("")

    def _show(self, text: str) -> None:
        print(f"\r{text.ljust(self._width)}", end="\r" if not text else "", file=sys.stderr, flush=True)
        self._width = len(text)
