"""`hugealign fix` as a function: fix one file, or undo that."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence

from hugealign.diagnosis.refusal import RefusalError, diagnosed
from hugealign.diagnosis.values import OUTPUT, SUBJECT, Diagnosis, Remedy
from hugealign.elf.fixrecord import SEPARATE, SHIFT, FixRecord, reader, recorded
from hugealign.elf.image import Image
from hugealign.errors import HugealignError, MalformedElfError, UsageError, cause
from hugealign.fixing import examine, wheels, writing
from hugealign.fixing.checked import refuse_checked
from hugealign.fixing.output import Output, fixed, original, unchanged
from hugealign.fixing.plan import Plan
from hugealign.io import copying, replacing
from hugealign.io.copying import ReplaceError
from hugealign.io.places import Place
from hugealign.io.regular import FileError, locked, named, opened
from hugealign.records import Record
from hugealign.settings import OWN
from hugealign.system import journal

#: What was done with a file, or would be.
FIX, UNDO, NOTHING = "fix", "undo", "nothing"
#: The levels to try if none is requested, the strongest first.
_BEST = (SEPARATE, SHIFT)
_NO_ROOM, _CHECK = "fix.no-window", "fix.check"


class FixOptions(Record):
    """How to fix.

    Attributes:
        level: The only level to try; by default the strongest one that is safe is taken.
        page_size: The size of a huge page in bytes; by default that of the file's processor.
        undo: Whether to restore the original instead.
        output: The path to write to.  Without it, and without *in_place*, nothing is written.
        in_place: Whether to replace the file.
        max_executable: The most bytes of read-only data that may become executable; by default a quarter of the text
            that the file gains.
        one_name: Whether of a file with several names (hard links) this one alone gets the fixed file.
    """

    level: str = ""
    page_size: int = OWN
    undo: bool = False
    output: str | None = None
    in_place: bool = False
    max_executable: int | None = None
    one_name: bool = False


class Way(Record):
    """What a level makes of a file."""

    level: str
    """One of `align`, `shift`, `separate`."""
    plan: Plan | None = None
    refused: Diagnosis | None = None
    """Why there is no plan."""

    JSON = "level plan refused"


class Outcome(Record):
    """What becomes of a file: the *action*, the new file (*output*), and the *plan*, None to undo one.

    *ways* are the levels that were tried, the strongest first.  *fixed*: an earlier fix has made the file.  *more* is
    as in `Fixed`, without a command.
    """

    action: str
    output: Output
    plan: Plan | None = None
    ways: tuple[Way, ...] = ()
    fixed: bool = False
    more: Diagnosis | None = None


class Fixed(Record):
    """What was done with a file."""

    path: str
    action: str
    """One of `fix`, `undo`, `nothing` (no more of the text can be in whole windows)."""
    before: int
    """Bytes of the file as it was."""
    after: int
    """Bytes of the result."""
    output: str
    """Where the result is, empty if nothing was written."""
    plan: Plan | None = None
    """None after an undo."""
    ways: tuple[Way, ...] = ()
    """The levels that were tried, the strongest first; all of them if nothing is written."""
    notes: tuple[Diagnosis, ...] = ()
    """Why `hugealign status` will not list it, or the list of its wheel does not match the file."""
    more: Diagnosis | None = None
    """That a larger *max_executable* puts more text in whole windows; None if it does not."""

    JSON = "path action output? size_before=before size=after plan ways=tried more"

    @property
    def tried(self) -> tuple[Way, ...]:
        """The levels that were tried, the strongest first, with the file as the subject of each diagnosis."""
        return tuple(way.changed(refused=way.refused and way.refused.about(self.path)) for way in self.ways)


class OutputError(HugealignError):
    """The result could not be written to *path*, which is unchanged."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


def fix(path: str | Place, options: FixOptions | None = None, others: Sequence[Place] = ()) -> Fixed:
    """Give the text of a finished file whole windows, or undo that.

    Args:
        path: The program or library; a Place is reached without links.
        options: How; by default the file is planned, and nothing is written.
        others: Other names of the file, which the new one also gets if it replaces the file.

    Returns:
        What was done, with windows before and after and the reason for not a stronger level.

    Raises:
        RefusalError: It cannot be done safely.
        HugealignError: The file cannot be read or written.
    """
    options = options or FixOptions()
    place = (named(path) if isinstance(path, str) else path) if options.in_place else None
    path = path if isinstance(path, str) else path.path
    with locked(place) if place else opened(path) as fd:
        if options.output is not None and replacing.same(path, options.output):
            raise UsageError("OUT is FILE itself; use --in-place")
        if options.output is None and not place:
            return _put(path, fd, options)
        return _first(lambda failed: _put(path, fd, options, failed, place, others))


def _first(put: Callable[[Mapping[str, RefusalError]], Fixed]) -> Fixed:
    """Return what *put* does.  If its file fails the check of SEPARATE, call it again with that failure.

    Only files that SEPARATE makes are checked.
    """
    try:
        return put({})
    except RefusalError as error:
        if error.diagnosis.code != _CHECK:
            raise
        return put({SEPARATE: error})


def _put(
    path: str,
    fd: int,
    options: FixOptions,
    failed: Mapping[str, RefusalError] | None = None,
    place: Place | None = None,
    others: Sequence[Place] = (),
) -> Fixed:
    """Do what `fix` does with the open file at *path*, or at *place* if it is replaced; *failed* is as in `outcome`."""
    try:
        planned = writing.state(fd)
        before = os.fstat(fd).st_size
        new = outcome(fd, options, compare=failed is None, failed=failed)
        if options.output is None and new.action != NOTHING:
            refuse_copy(path, fd, one_name=options.one_name)
    except OSError as error:
        raise FileError(cause(error)) from error
    if new.action == NOTHING and options.output is None:
        if place:  # a run that was killed after it had exchanged the files left the old one
            replacing.remove_leftovers(place)
        notes = wheels.record(place, fd) if place and new.fixed else ()
        more = _command_for(new.more, path, fd)
        return Fixed(path, new.action, before, before, "", new.plan, new.ways, notes, more)
    if place:
        notes = _over(place, others, fd, new, planned, one_name=options.one_name)
        return Fixed(path, new.action, before, new.output.size, path, new.plan, new.ways, notes)
    if options.output is not None:
        _write(options.output, fd, new.output, planned)
    more = _command_for(new.more, path, fd) if new.action == NOTHING or options.output is None else None
    return Fixed(path, new.action, before, new.output.size, options.output or "", new.plan, new.ways, (), more)


def _over(
    place: Place, others: Sequence[Place], fd: int, new: Outcome, planned: tuple[int, ...], *, one_name: bool
) -> tuple[Diagnosis, ...]:
    """Put *new* in the place of the open file at *place*, and of those at *others* that are the same file.

    Return the notes of a `Fixed`.  Raises ReplaceError.
    """
    notes: list[Diagnosis] = []
    made, before = -1, os.fstat(fd)
    with contextlib.ExitStack() as stack:
        for name in (place, *others):
            with journal.noted(journal.FIXED, name) if new.action == FIX else contextlib.nullcontext() as note:
                if made < 0:
                    made = writing.write_over(name, fd, new.output, planned, one_name=one_name)
                    stack.callback(os.close, made)
                else:
                    replacing.share(made, name, before)
            notes += [*((note,) if note else ()), *wheels.record(name, made)]
    return tuple(notes)


def fix_into(path: str, target: int, options: FixOptions) -> Fixed:
    """Write what `fix` makes of the file at *path* to the empty file behind *target*, which no other process reads yet.

    Raises RefusalError and HugealignError as `fix` does; OSError if *target* cannot be written.
    """
    error: OSError | None = None  # `opened` would take it for an error of the file that is read

    def put(failed: Mapping[str, RefusalError]) -> Fixed:
        nonlocal error
        new = outcome(fd, options, failed=failed)
        try:
            os.ftruncate(target, 0)
            writing.compose(fd, target, new.output)
        except OSError as raised:
            error = raised
        return Fixed(path, new.action, os.fstat(fd).st_size, new.output.size, "-", new.plan, new.ways)

    with opened(path) as fd:
        planned = writing.state(fd)
        done = _first(put)
        if writing.state(fd) != planned:
            raise ReplaceError("it was changed meanwhile", copying.CHANGED)
    if error:
        raise error
    return done


def outcome(
    fd: int, options: FixOptions, *, compare: bool = False, failed: Mapping[str, RefusalError] | None = None
) -> Outcome:
    """Return what becomes of the file behind *fd*; with *compare*, also what every level would make of it.

    Take the first level that gains windows and whose file passes its check.  With *failed*, the caller checks the file
    as it is written, and these levels have failed the check.  Raises HugealignError, OSError.
    """
    image = examine.read(fd)
    if options.undo:
        return Outcome(UNDO, original(reader(fd), image))
    plan, output, ways = _chosen(fd, image, options, compare=compare, failed=failed)
    more = _more(fd, image, options, plan)
    if not output:
        fixed = recorded(reader(fd), image) is not None
        return Outcome(NOTHING, unchanged(reader(fd), image), plan, ways, fixed, more)
    return Outcome(FIX, output, plan, ways, more=more)


def _more(fd: int, image: Image, options: FixOptions, plan: Plan) -> Diagnosis | None:
    """Return the diagnosis that more executable data would put more text into whole windows than *plan* does."""
    if plan.level != SHIFT or plan.covered == plan.text or recorded(reader(fd), image):
        return None
    try:
        larger = examine.plan(image, options.page_size, SHIFT, image.file_size, None)
    except (RefusalError, MalformedElfError):
        return None
    if not larger.edits or larger.covered <= plan.result.covered:
        return None
    facts: dict[str, int | str] = {"data": larger.executable, "covered": larger.covered, "text": larger.text}
    return Diagnosis("fix.more-executable", "", facts, Remedy("run", before=plan.result.windows, after=larger.windows))


def _command_for(more: Diagnosis | None, path: str, fd: int) -> Diagnosis | None:
    """Return *more* about the open file at *path* with the command that does it: in place, if the file can change."""
    if not more or not more.remedy:
        return None
    words = ("hugealign", "fix", f"--level={SHIFT}", f"--max-executable={more.facts['data']}")
    try:
        refuse_copy(path, fd)
    except RefusalError:
        remedy = more.remedy.changed(argv=(*words, path, "-o"), needs=OUTPUT)
        return more.changed(subject=path, remedy=remedy)
    return more.changed(remedy=more.remedy.changed(argv=(*words, "--in-place"), needs=SUBJECT)).about(path)


def planned(fd: int, options: FixOptions) -> Plan:
    """Return the plan of `outcome` for the file behind *fd*, by its headers.

    The search through all code and all addresses takes a hundred times as long, and refuses few.  Raises
    HugealignError, OSError.
    """
    return _chosen(fd, examine.read(fd), options, search=False)[0]


def most_windows(fd: int, options: FixOptions) -> int:
    """Return the most windows of text that any level can give the file behind *fd*, by its headers.

    Raises HugealignError, OSError.
    """
    image = examine.read(fd)
    record = recorded(reader(fd), image)
    most = 0
    for level in _levels(options, record):
        with contextlib.suppress(RefusalError, MalformedElfError):
            most = max(most, examine.plan(image, options.page_size, level, options.max_executable, record).windows)
    return most


def _chosen(
    fd: int,
    image: Image,
    options: FixOptions,
    *,
    compare: bool = False,
    search: bool = True,
    failed: Mapping[str, RefusalError] | None = None,
) -> tuple[Plan, Output | None, tuple[Way, ...]]:
    """Return the plan to carry out, the file that it makes if that was built, and the levels that were tried."""
    examine.refuse(fd, image)
    record = recorded(reader(fd), image)
    if not record:
        refuse_checked(fd, image)
    ways: list[Way] = []
    failures: list[RefusalError | MalformedElfError] = []
    taken: tuple[Plan, Output | None] | None = None
    for level in _levels(options, record):
        try:
            if failed and level in failed:
                raise failed[level]
            plan = examine.plan(image, options.page_size, level, options.max_executable, record)
            output = _output(fd, image, plan, search) if plan.edits and not record else None
            if output and failed is None:
                writing.refuse_wrong(fd, output)
        except (RefusalError, MalformedElfError) as error:
            failures.append(error)
            ways.append(Way(level, refused=diagnosed("", error)))
            continue
        if record and plan.edits:
            undo = Remedy("run", ("hugealign", "fix", "--undo"), SUBJECT)
            raise RefusalError("fix.fixed-already", undo, level=record.level)
        ways.append(Way(level, plan))
        if not taken or (plan.edits and not taken[0].edits):
            taken = plan, output
        if plan.edits and not compare:
            break
    if not taken:
        raise _failure(fd, options, failures)
    return *taken, tuple(ways)


def _levels(options: FixOptions, record: FixRecord | None) -> tuple[str, ...]:
    """Return the levels to try, the strongest first: for a file that a fix has left *record* in, its own is enough."""
    if options.level:
        return (options.level,)
    return (record.level,) if record and record.level in _BEST else _BEST


def _output(fd: int, image: Image, plan: Plan, search: bool) -> Output | None:
    """Return the file that *plan* makes of the one behind *fd*; None if that needs a search, without *search*.

    Raises HugealignError, OSError.
    """
    if plan.step and not search:
        return None
    if plan.step:
        from hugealign.fixing.separation.output import separated  # as in `examine.plan`

        output = separated(fd, image, plan, plan.step)
    else:
        output = fixed(reader(fd), image, plan)
    if guard := examine.lost(fd, output):
        raise RefusalError("fix.weaker", guard=guard)
    return output


def _failure(fd: int, options: FixOptions, failures: Sequence[HugealignError]) -> HugealignError:
    """Return why none of the levels serves the file behind *fd*; *failures* are theirs.

    The last failure counts, unless it only says that the file has no room for that level.  Then another says more: if
    the user requested the level, which level has room; otherwise the failure of the strongest level, unless only the
    last failure has a remedy.
    """
    last = failures[-1]
    if not isinstance(last, RefusalError) or last.diagnosis.code != _NO_ROOM:
        return last
    if options.level:
        with contextlib.suppress(HugealignError):
            best = outcome(fd, options.changed(level=""))
            if best.plan and best.action == FIX:
                return RefusalError(_NO_ROOM, Remedy("level"), **last.diagnosis.facts, higher=best.plan.level)
    first = failures[0]
    return last if last.diagnosis.remedy and not (isinstance(first, RefusalError) and first.diagnosis.remedy) else first


def refuse_copy(path: str, fd: int, *, one_name: bool = False) -> None:
    """Raise RefusalError if a copy cannot take the place of the open file at *path*, or of this *one_name* of it."""
    try:
        replacing.refuse_write(fd)
        replacing.refuse(fd, os.fstat(fd), os.path.realpath(path), one_name=one_name)
    except ReplaceError as error:
        remedy = Remedy("other-file", ("hugealign", "fix", path, "-o"), OUTPUT)
        if error.facts.get("names"):
            remedy = Remedy("one-name", ("hugealign", "fix", "-r", path))
        raise RefusalError(error.code, remedy, **error.facts) from error


def _write(path: str, fd: int, output: Output, planned: tuple[int, ...]) -> None:
    """Write *output* to *path*.  *planned* is the state of the file from before it was read."""
    try:
        writing.write_new(fd, output, path, planned)
    except ReplaceError as error:
        if error.code == copying.CHANGED:  # the file that was read
            raise
        raise OutputError(path, f"cannot be written: {error}") from error
