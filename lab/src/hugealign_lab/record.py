"""Records a trace: the command runs under QEMU's user-mode emulation, with our plugin, which writes the chunks."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from hugealign.elf.image import EM_AARCH64, EM_X86_64, PT_INTERP, Image, read_file
from hugealign.environment import as_given, reset_signals, signals_to_reset
from hugealign.errors import HugealignError, NotElfError, NotRunnableError
from hugealign.io.native import library
from hugealign.io.progress import Progress
from hugealign.io.replacing import beside
from hugealign.io.units import format_size, printable
from hugealign.process.running import handling, passing_on
from hugealign_lab import tracefile
from hugealign_lab.files import describe, vaddr
from hugealign_lab.shared import Shared
from hugealign_lab.tracefile import BLOCK, LAST, RAW, Description, TraceError

_PLUGIN = os.path.join(os.path.dirname(__file__), "plugin.c")
_MACHINES = {EM_X86_64: "x86_64", EM_AARCH64: "aarch64"}
_SYSROOTS = {"aarch64": "/usr/aarch64-linux-gnu", "x86_64": "/usr/x86_64-linux-gnu"}
_VERSION = re.compile(r"version (\d+)\.")
_INTERVAL = 0.2  # seconds between looks at the shared memory
_PATIENCE = 1.0  # seconds for threads that are writing


@dataclass(frozen=True, slots=True)
class Recorded:
    """The *status* of the command, the trace's *description*, and the *size* of the file in bytes."""

    status: int
    description: Description
    size: int


def record(words: Sequence[str], output: str, limit: int) -> Recorded:
    """Run *words* and write their trace to *output*, of at most about *limit* bytes; completely or not at all.

    Raises HugealignError, and NotRunnableError if the command is not found, or not one that the emulator can run.
    """
    program = _program(words[0])
    image = _image(program)
    machine = _MACHINES[image.e_machine]
    emulator = [*_emulator(machine), "-0", words[0]]
    if sysroot := _sysroot(image, program, machine):
        emulator += ["-L", sysroot]
    target = os.path.realpath(output)
    if os.path.exists(target) and not os.path.isfile(target):
        raise HugealignError(f"{printable(output)}: not a regular file")
    try:
        with beside(target) as path:
            with open(path, "wb") as stream:
                stream.write(tracefile.MAGIC)
            shared = Shared(path, limit)
            try:
                status = _run(emulator, shared, [program, *words[1:]])
                description = _finish(shared, path, program, words, machine)
            finally:
                shared.free()
        return Recorded(status, description, os.path.getsize(target))
    except OSError as error:
        raise HugealignError(f"{printable(output)}: cannot be written: {error.strerror}") from None


def _program(word: str) -> str:
    path = shutil.which(word)
    if path is None:
        if os.path.isdir(word):
            raise NotRunnableError(f"{printable(word)}: is a directory", 126)
        if os.path.exists(word) and "/" in word:
            raise NotRunnableError(f"{printable(word)}: not executable", 126)
        raise NotRunnableError(f"{printable(word)}: command not found", 127)
    return os.path.realpath(path) if os.path.isfile(path) else path


def _image(program: str) -> Image:
    try:
        image = read_file(program)
    except NotElfError:
        raise NotRunnableError(
            f"{printable(program)}: a script; trace what runs it: hugealign trace -- INTERPRETER SCRIPT",
            126,
        ) from None
    except (OSError, HugealignError) as error:
        raise NotRunnableError(f"{printable(program)}: cannot be run: {error}", 126) from None
    if image.e_machine not in _MACHINES or not image.is64 or not image.little:
        raise NotRunnableError(f"{printable(program)}: neither x86-64 nor aarch64 code", 126)
    return image


def _emulator(machine: str) -> list[str]:
    """Return the emulator and its arguments that load our plugin; the caller appends the memory's path."""
    name = f"qemu-{machine}"
    path = shutil.which(name)
    if path is None:
        raise HugealignError(f"{name} not found; on Debian: apt-get install qemu-user")
    # Since 9.0 the lowest version of the interface that QEMU accepts is 2, and before that the highest was 1; the parts
    # that we use have not changed.
    match = _VERSION.search(_output(path, "--version"))
    if not match:
        raise HugealignError(f"{printable(path)}: does not tell its version")
    if "\n-plugin" not in _output(path, "-h"):
        raise HugealignError(
            f"{printable(path)}: was built without plugins, as Debian's is since 13 and every static one; "
            "put one first on PATH that was configured with --enable-plugins, as Debian 12's is"
        )
    plugin = library(_PLUGIN, f"API_VERSION={1 if int(match.group(1)) < 9 else 2}")
    return [path, "-plugin", f"file={plugin.replace(',', ',,')}"]


def _output(path: str, option: str) -> str:
    """Return QEMU's output."""
    done = subprocess.run([path, option], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.stdout


def _sysroot(image: Image, program: str, machine: str) -> str | None:
    """Return the directory of another processor's libraries, if the dynamic linker that the file names is not here."""
    interpreter = next((s for s in image.segments if s.p_type == PT_INTERP), None)
    if interpreter is None or os.environ.get("QEMU_LD_PREFIX"):
        return None
    with open(program, "rb") as stream:
        stream.seek(interpreter.p_offset)
        name = stream.read(min(interpreter.p_filesz, 4096)).split(b"\0", 1)[0]
    path = _SYSROOTS[machine]
    return path if not os.path.exists(name) and os.path.exists(os.path.join(path, os.fsdecode(name)[1:])) else None


def _run(emulator: list[str], shared: Shared, words: list[str]) -> int:
    """Run *words* and return their status, 128 plus the signal's number if a signal ended them."""
    path, option, plugin, *rest = emulator
    command = [path, *rest, option, f"{plugin},shared={shared.path}", *words]
    with _no_interrupts() as default, Progress("hugealign: trace") as progress:
        try:
            child = subprocess.Popen(
                command,
                env=as_given(),
                preexec_fn=default,  # noqa: PLW1509  # no thread runs here
                restore_signals=False,
                close_fds=False,
            )
        except OSError as error:
            raise HugealignError(f"{printable(path)}: cannot be run: {error.strerror}") from None
        with passing_on(child.send_signal):
            while True:
                try:
                    status = child.wait(_INTERVAL if sys.stderr.isatty() else None)
                    break
                except subprocess.TimeoutExpired:
                    progress.say(f"{shared.now.events:,} blocks, {format_size(shared.now.bytes)}")
    return status if status >= 0 else 128 - status


@contextlib.contextmanager
def _no_interrupts() -> Iterator[Callable[[], None]]:
    """Leave the terminal's signals to the command; yield a function that gives it the handlers that we were given."""
    numbers = (signal.SIGINT, signal.SIGQUIT)
    to_reset = signals_to_reset()
    with handling(dict.fromkeys(numbers, signal.SIG_IGN)) as before:
        handled = [number for number in numbers if before[number] != signal.SIG_IGN]
        yield lambda: reset_signals([*to_reset, *handled])


def _finish(shared: Shared, path: str, program: str, words: Sequence[str], machine: str) -> Description:
    """Write the description and the tables behind the chunks."""
    shared.close()
    stop = time.monotonic() + _PATIENCE
    while shared.now.writers and time.monotonic() < stop:
        time.sleep(0.001)
    if shared.now.error:
        raise OSError(shared.now.error, os.strerror(shared.now.error))
    if not shared.now.streams:
        raise HugealignError("nothing was recorded: QEMU did not run the command")
    files = tuple(describe(name) if name else tracefile.File("") for name in shared.files())
    files, number = _with_program(files, program)
    state = shared.now
    description = Description(tuple(words), machine, files, number, cut=shared.cut, execs=state.execs, lost=state.lost)
    with open(path, "r+b") as stream:
        description.events, end = _count(stream)
        if end < os.fstat(stream.fileno()).st_size:
            stream.truncate(end)
            description.cut = "a process was killed while it wrote"
        stream.seek(end)
        for owner, ids in shared.rest():
            tracefile.write_chunk(stream, owner, LAST | RAW, len(ids) // 4, ids)
            description.events += len(ids) // 4
        tracefile.write_end(stream, description, _addresses(shared.blocks(), files))
    return description


def _with_program(files: tuple[tracefile.File, ...], program: str) -> tuple[tuple[tracefile.File, ...], int]:
    for number, file in enumerate(files):
        if file.path == program:
            return files, number
    wanted = describe(program)
    for number, file in enumerate(files):
        if wanted.identity and file.identity == wanted.identity:
            return files, number
    return (*files, wanted), len(files)


def _count(stream: BinaryIO) -> tuple[int, int]:
    """Return the number of events in the chunks, and the end of the last whole chunk."""
    events, end = 0, len(tracefile.MAGIC)
    with contextlib.suppress(TraceError):
        for _, _, chunk in tracefile.walk(stream, os.fstat(stream.fileno()).st_size):
            events += chunk.events
            end = chunk.offset + chunk.size
    return events, end


def _addresses(rows: bytes, files: Sequence[tracefile.File]) -> bytes:
    """Return the table of blocks with addresses as in p_vaddr, not file offsets."""
    table = bytearray(rows)
    for number, (offset, file, size, instructions) in enumerate(BLOCK.iter_unpack(rows)):
        if not size and number:  # of a process that was killed at that moment: the block never ran
            BLOCK.pack_into(table, number * BLOCK.size, 0, 0, 1, 1)
        elif file:
            row = vaddr(files[file], offset), file, size, instructions
            BLOCK.pack_into(table, number * BLOCK.size, *row)
    return bytes(table)
