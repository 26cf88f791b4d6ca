"""Work for a second process, while this one does other work that the linker also waits for."""

import marshal
import os

from hugealign.io.descriptors import forked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class SecondProcess:
    """A process that does *work*, whose result must be of types that `marshal` knows: numbers, bytes, lists, ...."""

    def __init__(self, work: "Callable[[], Any]") -> None:
        self.work = work
        self.pid, self.fd = forked(lambda: marshal.dumps(work()))

    def result(self) -> "Any":
        """Wait for the work and return its result; if it failed there, do it again here."""
        with open(self.fd, "rb") as pipe:
            data = pipe.read()
        _, status = os.waitpid(self.pid, 0)
        return self.work() if status else marshal.loads(data)  # noqa: S302 - from our own process
