"""A progress line on the terminal, for work that takes longer than a second."""

import sys
import time

_PATIENCE = 1.0  # seconds before the first message
_INTERVAL = 0.1  # seconds between messages


TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence
    from typing import Self


#: The objects whose line is on the terminal.
_shown: "list[Progress]" = []


def silent(_: object) -> None:
    """Show nothing, for callers that want no progress."""


def clear() -> None:
    """Clear the progress lines, to make room for something else on the terminal."""
    for line in tuple(_shown):
        line.clear()


def _seen() -> bool:
    """Say whether standard error, which may be closed, is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


class Progress:
    """Progress on stderr, if a terminal: call it with the amount done and the total; its line is cleared at exit.

    It shows nothing for the first *patience* seconds.
    """

    def __init__(self, title: str, patience: float = _PATIENCE) -> None:
        self._title = title
        self._next = time.monotonic() + patience
        self._width = 0
        self._text = ""
        self._timer: threading.Timer | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show that *done* of *total* windows are done, if it is time."""
        self.say(f"{done} of {total} windows")

    def say(self, text: str) -> None:
        """Show *text* after the title, if it is time."""
        now = time.monotonic()
        if now < self._next or not _seen():
            return
        self._next = now + _INTERVAL
        if not self._width:
            _shown.append(self)
        self._show(f"{self._title}: {text}")

    def at_once(self, text: str) -> None:
        """Show *text* now, for work that is known to take long."""
        self._next = 0.0
        self.say(text)

    def phase(self, text: str) -> None:
        """Show *text*, at the latest when it is time, even if nothing else is shown."""
        self._text = text
        self.say(text)
        if self._timer is None and _seen():
            import threading

            self._timer = threading.Timer(max(0.0, self._next - time.monotonic()), lambda: self.say(self._text))
            self._timer.daemon = True
            try:
                self._timer.start()
            except RuntimeError:  # no room for a thread: the line comes later
                self._timer = None

    def over(self, names: "Sequence[str]") -> "Iterator[str]":
        """Yield the *names* of files, and show how many are done."""
        for number, name in enumerate(names):
            self.say(f"{number:,} of {len(names):,} files")
            yield name

    def clear(self) -> None:
        """Remove the line."""
        if self._width:
            self._show("")
            _shown.remove(self)

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer.join()
        self.clear()

    def _show(self, text: str) -> None:
        print(f"\r{text.ljust(self._width)}", end="\r" if not text else "", file=sys.stderr, flush=True)
        self._width = len(text)
