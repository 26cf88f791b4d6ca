"""Runs the tools that read binary formats: by an argument list, with streamed output and a time limit."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import BinaryIO, cast

from hugealign.errors import cause
from hugealign.io.execution import start_thread
from hugealign.io.units import printable
from hugealign.profile.ahead import Ahead
from hugealign.profile.model import ProfileError

SECONDS_LIMIT = 3600  # of one run; perf needs about ten minutes for 10 GB
_MESSAGE_LIMIT = 300


def find(name: str, package: str) -> str:
    """Return the path of the program *name*.  Raises ProfileError naming the *package* that has it."""
    if path := shutil.which(name):
        return path
    raise ProfileError(f"needs {name}, which is not installed (Debian: apt install {package})")


class ToolError(ProfileError):
    """The *tool* failed; *printed* is the last line of what it printed, for `hugealign.profile.perf` to recognise."""

    def __init__(self, tool: str, printed: str) -> None:
        super().__init__(f"{tool} cannot read it: {printed}")
        self.printed = printed


def versions(name: str, package: str) -> list[str]:
    """Return the paths of LLVM's tool *name*, the newest version first.  Raises ProfileError if there is none."""
    names = (*(f"{name}-{version}" for version in range(25, 13, -1)), name)
    return [path for candidate in names if (path := shutil.which(candidate))] or [find(name, package)]


@contextlib.contextmanager
def output(words: Sequence[str], seconds: int = SECONDS_LIMIT, ahead: bool = False) -> Iterator[BinaryIO]:
    """Give the standard output of a command while it runs; with *ahead*, read it ahead of demand.

    Raises ProfileError if it cannot be started, fails, or runs longer than *seconds*.
    """
    tool = os.path.basename(words[0])
    with tempfile.TemporaryFile() as messages:
        environment = os.environ | {"LC_ALL": "C", "PAGER": "cat", "DEBUGINFOD_URLS": ""}
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=messages, env=environment,
                bufsize=1 << 20, pipesize=1 << 20,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise ProfileError(f"{tool}: {cause(error)}") from None
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        printed = stream = cast("BinaryIO", process.stdout)
        finished = False
        try:
            start_thread(timer)
            if ahead:
                stream = cast("BinaryIO", Ahead(printed))
            yield stream
            finished = True
        finally:
            if not finished:
                process.kill()
            stream.close()
            printed.close()
            status = process.wait()
            timer.cancel()
        if late.is_set():
            raise ProfileError(f"{tool} took longer than {seconds} s")
        if status:
            raise ToolError(tool, _message(messages) or f"status {status}")


def text(words: Sequence[str], limit: int = 64 << 20) -> bytes:
    """Return the output of a command.  Raises ProfileError like `output`, and for more than *limit* bytes."""
    with output(words) as stream:
        data = stream.read(limit + 1)
        if len(data) > limit:
            raise ProfileError(f"{os.path.basename(words[0])} prints more than {limit >> 20} MiB")
    return data


def _message(messages: BinaryIO) -> str:
    """Return the last line that is neither empty nor part of a backtrace, safe for a terminal."""
    messages.seek(0)
    lines = [line.strip() for line in messages.read(1 << 16).decode("utf-8", "replace").splitlines()]
    return printable(next((line for line in reversed(lines) if line and line[:4] not in ("@   ", "*** ")), ""))[
        :_MESSAGE_LIMIT
    ]
