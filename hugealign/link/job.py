"""What a link requests, and whether hugealign lays it out."""

import os
import stat

from hugealign.elf.image import ELFMAG
from hugealign.elf.machines import Machine, sizes
from hugealign.io import ar
from hugealign.io.descriptors import file_at
from hugealign.link import command as commands
from hugealign.link import estimate, linkers
from hugealign.link.command import Command
from hugealign.records import Record
from hugealign.settings import Settings

_SCRIPT_LIMIT = 1 << 20  # bytes of a user's linker script that are read
_OBJECTS = (".o", ".lo", ".obj", ".rlib")  # inputs that are not scripts, by their names
_MAGIC = (ELFMAG, ar.MAGIC, ar.THIN, *estimate.BITCODE)  # and by how they begin
_LEFT_OUT = "left out by HUGEALIGN_ONLY or HUGEALIGN_SKIP"
_LIBRARIES = (".so", ".a")
_LIBRARY_LIMIT = 1 << 16  # bytes of a library that may be a script


class Job(Record):
    """One link to lay out: the *real* linker, the user's *arguments*, and the *words* after response files expand.

    *command* is what the words request, *machine* the processor, *settings* what the environment requests, *before* the
    state of the output before the link (`state`).
    """

    real: str
    arguments: list[str]
    words: list[str]
    command: "Command"
    machine: Machine
    settings: "Settings"
    before: tuple[int, ...] = ()

    @property
    def output(self) -> str:
        """The path of the linked file."""
        return self.command.output

    def with_users_page_size(self) -> "Job":
        """Return the job with the user's larger page size, rounded down to a multiple of ours."""
        page, user = self.settings.page_size, self.command.max_page_size
        return self.changed(settings=self.settings.changed(page_size=max(page, user - user % page)))


class LeftAlone(Record):
    """A link that hugealign leaves alone: its *output*, and the *reason*.

    *excluded*: the user's settings leave this output out.
    """

    output: str
    reason: str
    excluded: bool = False


def understand(real: str, arguments: list[str], settings: "Settings") -> Job | LeftAlone:
    """Return the job of the linker *real* with *arguments*, unless hugealign leaves it alone."""
    try:
        words = commands.expand(arguments, _read_response)
    except RecursionError:
        return LeftAlone(commands.parse(arguments).output, "response files name each other")
    command = commands.parse(words)
    if command.hands_off and (linker := linkers.identify(real)):
        command = commands.parse(words, linker.name)  # an option may name what this linker does anyway
    job = _job(real, arguments, words, command, settings)
    return LeftAlone(command.output, job, job == _LEFT_OUT) if isinstance(job, str) else job


def _job(real: str, arguments: list[str], words: list[str], command: "Command", settings: "Settings") -> Job | str:
    if any("\0" in word for word in words):
        return "a response file holds a NUL byte"
    if words != arguments and any(_is_pipe(word) for word in words):  # sh/shim.sh has looked at the arguments
        return "an input can be read only once"
    if command.hands_off:
        return command.hands_off
    if not command.inputs:
        return "there is nothing to link"
    machine = command.machine or estimate.machine_of(command)
    if machine is None:
        return "the target is not one that hugealign knows"
    page_size, min_text, threshold = sizes(machine, settings.page_size, settings.min_text)
    settings = settings.changed(page_size=page_size, min_text=min_text, pad_threshold=threshold)
    if command.image_base is not None and command.image_base % settings.page_size:
        return "the requested image base is not on a window"
    if 0 < command.max_page_size < command.common_page_size:
        return "its common page size is larger than its largest"  # GNU ld refuses that; with ours, it would not
    if os.path.exists(command.output) and not os.path.isfile(command.output):
        return "the output is not a regular file"
    if not _wanted(command.output, settings):
        return _LEFT_OUT
    if not os.path.isdir("/proc/self/fd"):
        return "/proc is not mounted"
    if full := _full_script(command):
        return full
    return Job(real, arguments, words, command, machine, settings, state(command.output))


def state(path: str) -> tuple[int, ...]:
    """Return what distinguishes the file at *path* from a later one of that name; empty without a file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _is_pipe(word: str) -> bool:
    """Return whether *word*, or the part behind its ``=``, names a pipe."""
    path = word.partition("=")[2] if word.startswith("-") else word.removeprefix("@")
    try:
        return bool(path) and stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


def _read_response(path: str) -> str:
    if not os.path.isfile(path):
        raise FileNotFoundError
    with open(path, "rb") as file:
        return os.fsdecode(file.read())


def _full_script(command: "Command") -> str:
    """Return why a linker script of the user's own keeps the link from being laid out, empty if none does.

    Scripts are given by ``-T`` or ``-dT``, or among the inputs and libraries, where a linker takes a file that is not
    an object for a script (ld manual, "Implicit Linker Scripts").  *command* gets the patterns of the sections that
    they request.
    """
    default = [] if command.default_script is None else [command.default_script]
    for name in command.scripts + default:
        if (data := _beginning(_locate(name, command.library_paths))) is None:
            return f"the linker script {name} cannot be read"
        if full := _read_script(name, data, command):
            return full
    for name in [name for name in command.inputs if not name.endswith(_OBJECTS)] + estimate.libraries(command):
        library = name.endswith(_LIBRARIES) or ".so." in name
        data = _beginning(name, _MAGIC, library)
        if library and data and b"{" not in data and b"INCLUDE" not in data:
            continue  # libc.so: it names inputs, and every link has it
        if data and (full := _read_script(name, data, command)):
            return full
    return ""


def _beginning(path: str, magic: tuple[bytes, ...] = (), library: bool = False) -> bytes | None:
    """Return what the file at *path* holds; None if it cannot be read, begins with *magic*, or is a large *library*."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or (library and status.st_size > _LIBRARY_LIMIT):
            return None
        with file_at(path) as fd:
            data = os.read(fd, min(status.st_size, _SCRIPT_LIMIT) + 1)
    except (OSError, ValueError):
        return None
    return None if data.startswith(magic) else data


def _read_script(name: str, data: bytes, command: "Command") -> str:
    """Return why the script *name* is a full one, empty if it is not; *command* gets its patterns."""
    if len(data) > _SCRIPT_LIMIT:
        return f"the linker script {name} is too long to be looked at"
    from hugealign.link.scripts import Script  # most links have none

    script = Script(data.decode("latin-1"))
    command.sections += script.patterns
    return f"the linker script {name} is a full one: {script.full}" if script.full else ""


def _locate(path: str, library_paths: list[str]) -> str:
    """Return where the linker script *path* is, searched for as GNU ld does."""
    return next(
        (there for where in ("", *library_paths) if os.path.isfile(there := os.path.join(where, path))),
        path,
    )


def _wanted(output: str, settings: "Settings") -> bool:
    """Return whether ONLY selects *output* and SKIP does not: globs of its name, or of its path if with a slash."""
    if not settings.only and not settings.skip:
        return True
    from fnmatch import fnmatchcase

    def matches(globs: tuple[str, ...]) -> bool:
        return any(fnmatchcase(output if "/" in glob else os.path.basename(output), glob) for glob in globs)

    return (not settings.only or matches(settings.only)) and not matches(settings.skip)
