"""What is in force on the whole machine, kept in one file that outlives a reboot."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from hugealign.diagnosis.refusal import DiagnosedError, error_name
from hugealign.io import replacing, resources
from hugealign.io.descriptors import using
from hugealign.machine.plan import COPIES, HOOK, IN_PLACE, Part
from hugealign.services.dropins import PLACE
from hugealign.system.saving import Saving

SCHEMA = "hugealign.machine/1"
_NAME = "machine.json"
_LIMIT = 16 << 20  # bytes
_MOST = 1 << 62


@dataclass(frozen=True, slots=True)
class Held:
    """A part in force."""

    part: Part
    since: int
    """In seconds since 1970."""
    used: int
    """When its programs were last seen in use."""
    identities: tuple[str, ...] = ()
    """The states of its files: a device, an inode, a size and a time of change for each."""

    JSON = "*=part since used"


@dataclass(frozen=True, slots=True)
class State:
    """All parts in force, and how the last look at the machine ended."""

    since: int
    """When the machine was enabled, in seconds since 1970."""
    held: tuple[Held, ...] = ()
    looked: int = 0
    """When it was last looked at; 0 before that."""
    failure: str = ""
    """The code of the diagnosis that ended the last look, empty if it did what it should."""
    left: Mapping[str, int] = field(default_factory=dict)
    """How many the last look left as they were, by the code of the reason."""
    made: tuple[str, ...] = ()
    """Directories that were made for the hook, the outermost first."""

    @property
    def memory(self) -> int:
        """The bytes that all parts take."""
        return sum(held.part.memory for held in self.held)

    @property
    def saved(self) -> float:
        """The share of one processor that all parts save, by the model."""
        return sum(held.part.saved for held in self.held)

    def in_place(self) -> list[Held]:
        """Return the parts that are huge in place."""
        return [held for held in self.held if held.part.how == IN_PLACE]

    def hooked(self) -> list[Held]:
        """Return the parts that are huge in containers, by the hook."""
        return [held for held in self.held if held.part.how == HOOK]

    def services(self) -> list[str]:
        """Return the services that run from copies."""
        return [held.part.name for held in self.held if held.part.how == COPIES]

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return what is in a file that `write` has written.  Raises KeyError, TypeError, ValueError."""
        if data["schema"] != SCHEMA:
            raise ValueError
        held = tuple(_held(entry) for entry in data["held"])
        left = {str(code): int(count) for code, count in data["left"].items()}
        made = tuple(map(str, data.get("made", ())))
        return cls(_number(data["since"]), held, _number(data["looked"]), str(data["failure"]), left, made)


def _held(data: dict[str, Any]) -> Held:
    part = dict(data["part"])
    files = tuple(map(str, part["files"]))
    if not all(map(os.path.isabs, files)) or part["how"] not in (IN_PLACE, COPIES, HOOK):
        raise ValueError
    made = Part(**{**part, "files": files, "saving": Saving(**part["saving"])})
    return Held(made, _number(data["since"]), _number(data["used"]), tuple(map(str, data["identities"])))


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value < _MOST:
        raise ValueError
    return value


def path() -> str:
    """Return the path of the file."""
    return os.path.join(resources.ROOT_STATE, "hugealign", _NAME)


def read() -> State | None:
    """Return what is in force; None if the machine is not enabled, or for a user who may not see it.

    Raises HugealignError.
    """
    try:
        with open(path(), "rb") as file:
            resources.check(os.fstat(file.fileno()), path())
            return State.from_json(json.loads(file.read(_LIMIT)))
    except (FileNotFoundError, PermissionError):  # the directory is root's alone
        return None
    except OSError as error:
        raise DiagnosedError("machine.state", file=path(), error=error_name(error)) from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DiagnosedError("machine.state", file=path()) from error


def write(state: State) -> None:
    """Write what is in force.  Raises HugealignError."""
    text = json.dumps({"schema": SCHEMA, **asdict(state)}, indent=1) + "\n"
    try:
        with using(resources.made(os.path.dirname(path()), resources.ROOT_STATE)):
            replacing.write(path(), text.encode(), 0o644)
    except OSError as error:
        raise DiagnosedError("machine.state", file=path(), error=error_name(error)) from error


def remove() -> None:
    """Remove the file, and its directory if nothing else is in it."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path())
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(path()))


@contextlib.contextmanager
def alone(*, wait: bool = False) -> Iterator[None]:
    """Keep others from changing the machine meanwhile.  Raises HugealignError if one does, unless it is to *wait*."""
    # The directory of units: it is there, it is the machine's, and a lock on it leaves nothing behind.
    try:
        fd = os.open(PLACE, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise DiagnosedError("service.unit-file", file=PLACE, error=error_name(error)) from error
    with using(fd):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError as error:
            raise DiagnosedError("machine.busy") from error
        yield
