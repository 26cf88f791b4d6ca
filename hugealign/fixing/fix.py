"""`hugealign fix` as a function: fix one file, or undo that."""

import os
from contextlib import nullcontext

from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import OUTPUT, Diagnosis, Remedy
from hugealign.elf.fixrecord import SEPARATE, SHIFT, reader, recorded
from hugealign.elf.image import Image
from hugealign.errors import HugealignError, UsageError, cause
from hugealign.fixing import examine, writing
from hugealign.fixing.output import Output, fixed, original, unchanged
from hugealign.fixing.plan import Plan
from hugealign.io import replacing
from hugealign.io.regular import locked, opened
from hugealign.io.replacing import ReplaceError
from hugealign.records import Record
from hugealign.settings import PAGE_SIZE
from hugealign.system import journal

#: What was done with a file, or would be.
FIX, UNDO, NOTHING = "fix", "undo", "nothing"


class FixOptions(Record):
    """How to fix.  *output* is the path to write to; without it, and without *in_place*, nothing is written.

    *rodata*: read-only segments also get the whole windows that lie in them.
    """

    level: str = SHIFT
    page_size: int = PAGE_SIZE
    undo: bool = False
    output: str | None = None
    in_place: bool = False
    rodata: bool = False


class Fixed(Record):
    """What was done with the file at *path*, which was *before* bytes long and is now *after* bytes long.

    *action* is one of FIX, UNDO, NOTHING; *output* is where the result went, empty if nothing was written.  *plan* is
    None after an undo.  *note*: why `hugealign status` will not list it.
    """

    path: str
    action: str
    before: int
    after: int
    output: str
    plan: Plan | None = None
    note: Diagnosis | None = None


class OutputError(HugealignError):
    """The result could not be written to *path*, which is unchanged."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


def fix(path: str, options: FixOptions | None = None) -> Fixed:
    """Give the text of the file at *path* whole windows, or undo that, as *options* say.

    Raises RefusalError if that cannot be done safely, and HugealignError if the file cannot be read or written.  After
    a failure in place, the message says in which state the file is.
    """
    options = options or FixOptions()
    with (locked if options.in_place else opened)(path) as fd:
        if options.output is not None and replacing.same(path, options.output):
            raise UsageError("OUT is FILE itself; use --in-place")
        try:
            planned = writing.state(fd)
            before = os.fstat(fd).st_size
            action, output, plan = made(fd, options)
            if options.output is None and action != NOTHING:
                refuse_copy(path, fd)
        except OSError as error:
            state = f"; {writing.UNCHANGED}" if options.in_place else ""
            raise HugealignError(f"{cause(error)}{state}") from error
        if action == NOTHING and options.output is None:
            if options.in_place:  # a run that was killed after it had exchanged the files left the old one
                replacing.remove_leftovers(path)
            return Fixed(path, action, before, before, "", plan)
        changes = options.in_place and action == FIX
        with journal.noted(journal.FIXED, path) if changes else nullcontext() as note:
            where = _write(path, fd, output, options, planned)
        return Fixed(path, action, before, output.size, where, plan, note)


def fix_into(path: str, target: int, options: FixOptions) -> Fixed:
    """Write what `fix` makes of the file at *path* to the empty file behind *target*, which nobody else reads yet.

    Raises RefusalError and HugealignError as `fix` does; OSError if *target* cannot be written.
    """
    with opened(path) as fd:
        planned = writing.state(fd)
        action, output, plan = made(fd, options)
        before = os.fstat(fd).st_size
        failed = None
        try:
            writing.compose(fd, target, output)
        except OSError as error:
            failed = error  # `opened` would take it for one of reading
        if writing.state(fd) != planned:
            raise HugealignError("it was changed meanwhile")
    if failed:
        raise failed
    return Fixed(path, action, before, output.size, "-", plan)


def made(fd: int, options: FixOptions) -> tuple[str, Output, Plan | None]:
    """Return the action for the file behind *fd*, its result, and the plan.  Raises HugealignError, OSError."""
    image = examine.read(fd)
    read = reader(fd)
    if options.undo:
        return UNDO, _original(fd, image), None
    plan = examine.plan(fd, image, options.page_size, options.level, options.rodata)
    if not plan.edits:
        return NOTHING, unchanged(read, image), plan
    if plan.step:
        from hugealign.fixing.separation.output import separated

        output = separated(fd, image, plan, plan.step)
    else:
        output = fixed(read, image, plan)
    if guard := examine.lost(fd, output):
        raise RefusalError("fix.weaker", guard=guard)
    return FIX, output, plan


def _original(fd: int, image: Image) -> Output:
    """Return the file as it was before it was fixed.  Raises RefusalError, MalformedElfError, OSError."""
    record = recorded(reader(fd), image)
    if record and record.level == SEPARATE:
        from hugealign.fixing.separation import output

        return output.original(fd, image)
    return original(reader(fd), image)


def refuse_copy(path: str, fd: int) -> None:
    """Raise RefusalError if a copy cannot take the place of the open file at *path*."""
    try:
        replacing.refuse_write(fd)
        replacing.refuse(fd, os.fstat(fd), os.path.realpath(path))
    except ReplaceError as error:
        remedy = Remedy("other-file", ("hugealign", "fix", path, "-o"), OUTPUT)
        raise RefusalError("fix.no-copy", remedy, obstacle=error.obstacle) from error


def _write(path: str, fd: int, output: Output, options: FixOptions, planned: tuple[int, ...]) -> str:
    """Write *output*; return where it went.  *planned* is the state of the file from before it was read."""
    if options.output is not None:
        try:
            writing.write_new(fd, output, options.output, planned)
        except ReplaceError as error:
            raise OutputError(options.output, f"cannot be written: {error}") from error
        return options.output
    if options.in_place:
        writing.write_over(path, fd, output, planned)
        return path
    return ""
