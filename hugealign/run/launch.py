"""`hugealign run`: make text huge for one command the best way, in this process, which then becomes the command."""

import marshal
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress

from hugealign import settings
from hugealign.elf.coverage import text_size
from hugealign.elf.image import read_image
from hugealign.errors import HugealignError, cause
from hugealign.io.descriptors import using
from hugealign.io.execution import which
from hugealign.io.regular import FileError, opened
from hugealign.io.units import format_size, printable
from hugealign.pagecache import measure
from hugealign.pagecache.programs import binary, shared_libraries, warm_files
from hugealign.records import Record
from hugealign.run import copies, store, tunable
from hugealign.run.copies import StageError
from hugealign.system import children, namespace

#: How to make the text of a command huge.
AUTO, IN_PLACE, STAGE, COPY = "auto", "in-place", "stage", "copy"
#: memfd_create: executable, even if vm.memfd_noexec is 1 (Linux 6.3; EINVAL before).
_MFD_CLOEXEC, _MFD_EXEC = 1, 0x10
_DISABLED = (
    "huge pages are switched off for this process and what it starts (PR_SET_THP_DISABLE), by a parent of it; "
    "see: hugealign doctor"
)


class LaunchOptions(Record):
    """What to do for a command: *how*; *libs*: with its shared libraries; *fix*: with fixed copies.

    *files* are the paths of other programs and libraries that the command starts or opens.  *place* is the store to
    look into first; *wait* is the time in seconds that khugepaged gets in place.  *rodata*: the windows of read-only
    data, too.
    """

    how: str = AUTO
    libs: bool = False
    fix: bool = False
    place: str = store.DEFAULT
    wait: float = 0.0
    rodata: bool = False
    files: Sequence[str] = ()


class TextResult(Record):
    """The result for one file: *huge* of *windows* windows, made so by *how*; *problem* says why not all.

    *rodata* is the number of huge windows of read-only data and the number of all such windows; None if not asked for.
    """

    path: str
    how: str
    windows: int = 0
    huge: int = 0
    problem: str = ""
    rodata: tuple[int, int] | None = None

    @property
    def whole(self) -> bool:
        """Whether all its windows are huge, including those of read-only data if they were asked for."""
        return self.huge == self.windows and not self.problem and (not self.rodata or self.rodata[0] == self.rodata[1])

    @property
    def line(self) -> str:
        """The result, for people."""
        data = f"; read-only data: {self.rodata[0]} of {self.rodata[1]}" if self.rodata else ""
        return f"{printable(self.path)}: {self.huge} of {self.windows} windows huge{data}"


class Launch(Record):
    """How to execute the command: *program* is the file to execute instead of the first word, empty for that word.

    *texts* are the files that were examined, the program first; *named* are the paths of those that the options name.
    *tunable*: the program's loader can ask for huge pages
    itself (`hugealign.run.tunable`).
    """

    texts: Sequence[TextResult]
    program: str = ""
    tunable: bool = False
    named: Sequence[str] = ()


def prepare(command: str, options: LaunchOptions) -> Launch:
    """Make the text of *command* huge, as well as this kernel, file system and user allow.  Raises HugealignError.

    Afterwards this process may be in a mount namespace of its own, and executes the files there.  Nothing else of it
    changes: a child warms the files that can be huge in place.
    """
    try:
        program = binary(command)
    except FileError as error:
        return Launch([TextResult(command, IN_PLACE, problem=str(error))])
    if program is None and not options.files:
        return Launch(())
    if program and options.how == COPY:
        launch = _copied(command, os.path.realpath(program), options)
    else:
        launch = _prepared(program, options)
    if not any(text.windows for text in launch.texts):
        return launch
    if measure.huge_pages_disabled():
        return launch.changed(texts=[text.changed(huge=0, problem=_DISABLED) for text in launch.texts])
    with suppress(HugealignError):
        return launch.changed(tunable=program is not None and tunable.known(program))
    return launch


def _prepared(program: str | None, options: LaunchOptions) -> Launch:
    programs = (os.path.realpath(program),) if program else ()
    libraries = shared_libraries(program) if program and options.libs else ()
    named = tuple(map(os.path.realpath, options.files))
    texts = {path: TextResult(path, IN_PLACE) for path in (*programs, *map(os.path.realpath, libraries), *named)}
    if options.how != STAGE:
        # A staged file was staged for a reason, and the attempt in place reads the file again.
        in_place = [path for path in texts if options.how == IN_PLACE or not _in_store(path, options)]
        texts |= {text.path: text for text in _in_a_child(in_place, options)}
    if options.how != IN_PLACE:
        texts = _staged(texts, program, options)
    asked = {*programs, *named}
    return Launch([t for t in texts.values() if t.windows or t.problem or t.path in asked], named=named)


def worth_saying(launch: Launch) -> str:
    """Return the line to print about text that is not huge, or about text that was not examined; empty if all is."""
    for text in launch.texts:
        if text.windows and not text.whole:
            return f"{text.line}: {text.problem}"
    asked = [text for text in launch.texts if text.path in launch.named]
    for text in (*asked, *launch.texts[:1]):
        if text.windows:
            continue
        name, named = printable(text.path), text in asked
        if named and text.problem:
            return f"{name}: {text.problem}"
        with suppress(HugealignError), opened(text.path) as fd:
            size = text_size(read_image(fd))
            if size >= settings.min_text():
                import shlex  # it imports re

                option = f"--file {printable(shlex.quote(text.path))} " if named else ""
                what = text.problem or f"no whole window; run: hugealign run --fix {option}-- COMMAND"
                return f"{name}: none of {format_size(size)} of text huge: {what}"
            little = f"{name} has too little text for huge pages ({format_size(size)})"
            if named:
                return little
            if not any(text.windows for text in launch.texts):
                more = "what it starts or loads was not examined: hugealign advise -- COMMAND names it"
                return f"{little}; {more}"
    return ""


def _in_store(path: str, options: LaunchOptions) -> bool:
    if not os.path.isdir(options.place):
        return False
    with suppress(HugealignError), opened(path) as fd:
        origin = copies.source(path, fd, options.fix)
        if origin:
            with store.found(origin, options.place) as copy:
                return copy is not None
    return False


def _in_a_child(paths: Sequence[str], options: LaunchOptions) -> list[TextResult]:
    """Warm the files at *paths* in a child: a process that maps and measures them should not be the one to execute."""

    def work() -> bytes:
        from hugealign.diagnosis import render
        from hugealign.pagecache.text import WarmOptions

        found: list[tuple[str, int, int, str, tuple[int, int] | None]] = []
        for path, done in warm_files(paths, WarmOptions(wait=options.wait, rodata=options.rodata)):
            if isinstance(done, HugealignError):
                found.append((path, 0, 0, str(done), None))
                continue
            diagnosis = done.diagnosis if done.offsets else None
            diagnosis = diagnosis or (done.rodata.diagnosis if done.rodata else None)
            problem = render.text(diagnosis) if diagnosis else ""
            rodata = (done.rodata.huge, len(done.rodata.offsets)) if done.rodata else None
            found.append((path, len(done.offsets), done.huge, problem, rodata))
        return marshal.dumps(found)

    return [
        TextResult(path, IN_PLACE, windows, huge, problem, rodata and (rodata[0], rodata[1]))
        for path, windows, huge, problem, rodata in marshal.loads(children.result(work) or marshal.dumps([]))  # noqa: S302  # our own
    ]


def _staged(texts: Mapping[str, TextResult], program: str | None, options: LaunchOptions) -> dict[str, TextResult]:
    """Put huge copies over the files that are not huge yet, or could have more windows, in a namespace of our own."""
    found = dict(texts)
    # An ordinary user's copies, those of libraries too, need a user namespace.
    gives_none = bool(os.geteuid()) and program is not None and namespace.privileged(program)
    with ExitStack() as stack:
        origins = []
        for text in texts.values():
            whole = bool(text.windows) and text.whole
            if whole and not options.fix:
                continue
            windows = text.windows
            try:
                origin = copies.source(text.path, stack.enter_context(opened(text.path)), options.fix, options.rodata)
                if origin is None:
                    if options.fix and not text.windows:
                        found[text.path] = TextResult(text.path, IN_PLACE, problem="no window can be made of it")
                    continue
                if whole and origin.windows == text.windows:
                    continue
                windows = origin.windows
                copies.check(origin)
                if gives_none:
                    raise StageError("the program gives privileges, which it would not in a user namespace")
                origins.append(origin)
            except HugealignError as error:
                found[text.path] = _unstaged(text, windows, error)
        try:
            if origins and (reason := namespace.refusal()):
                raise namespace.NamespaceError(reason)
            for text in _in_namespace(origins, options.place) if origins else ():
                found[text.path] = text
        except (OSError, HugealignError) as error:
            for origin in origins:
                if found[origin.path].how == IN_PLACE:
                    found[origin.path] = _unstaged(found[origin.path], origin.windows, error)
    return found


def _unstaged(text: TextResult, windows: int, error: Exception) -> TextResult:
    problem = f"not staged: {cause(error)}"
    return TextResult(text.path, IN_PLACE, max(windows, text.windows), text.huge, problem, text.rodata)


def _in_namespace(origins: Sequence[copies.StagedFile], place: str) -> Iterator[TextResult]:
    """Enter a namespace, and bind a copy over each of *origins*: one from the store, or a new one."""
    with ExitStack() as stack:
        # Find and check these first: in a user namespace, root's files would look like nobody's.
        shared = {origin.path: stack.enter_context(store.found(origin, place)) for origin in origins}
        entered = namespace.enter()
        own = []
        for origin in origins:
            trusted = shared[origin.path]
            copy = _same(os.path.join(place, origin.identity), trusted) if trusted is not None else None
            if copy is None:
                own.append(origin)
            else:
                stack.callback(os.close, copy)
                yield _bound(origin, copy)
        if own:
            mounted = entered.mount_tmpfs([origin.path for origin in origins])
            stack.callback(entered.detach, mounted)
            for origin in own:
                yield _bound_own(entered, origin, mounted)


def _same(path: str, trusted: int) -> int | None:
    """Open the file at *path*, through a mount of the namespace that we have entered, if it is still *trusted*."""
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        if os.path.samestat(os.fstat(fd), os.fstat(trusted)):
            return fd
        os.close(fd)
    return None


def _bound_own(entered: namespace.Namespace, origin: copies.StagedFile, mounted: str) -> TextResult:
    """Make a copy on the tmpfs *mounted*, and bind it."""
    path = os.path.join(mounted, origin.identity)
    try:
        # Nobody can execute a file that is open for writing (ETXTBSY).
        with using(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)) as target:
            copies.write(origin, target)
            copies.carry(origin, target, owner=not entered.user)
            copy = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with using(copy):
            return _bound(origin, copy)
    except (OSError, HugealignError) as error:
        with suppress(OSError):
            os.unlink(path)  # frees its memory
        return _unstaged(TextResult(origin.path, IN_PLACE), origin.windows, error)


def _bound(origin: copies.StagedFile, copy: int) -> TextResult:
    """Bind *copy* over the file of *origin*, if its path still leads there."""
    try:
        bound = _measured(origin, copy, STAGE)
        with using(os.open(origin.path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)) as target:
            if not os.path.samestat(os.fstat(target), os.fstat(origin.fd)):
                raise StageError("another file took its name")
            with using(namespace.tree(copy)) as made:
                namespace.attach(made, target)
    except (OSError, HugealignError) as error:
        return _unstaged(TextResult(origin.path, IN_PLACE), origin.windows, error)
    return bound


def _measured(origin: copies.StagedFile, copy: int, how: str) -> TextResult:
    """Return how much of the *copy* of *origin* is huge, and why not all of it is."""
    huge, rodata = copies.huge_windows(copy), copies.huge_rodata(origin, copy)
    done = TextResult(origin.path, how, origin.windows, huge, rodata=rodata)
    if done.whole:
        return done
    from hugealign.diagnosis import render

    return done.changed(problem=render.text(copies.diagnosis(copy)))


def _copied(command: str, path: str, options: LaunchOptions) -> Launch:
    """Make a huge copy in memory without a path, for systems that allow no mounts."""
    if path != os.path.realpath(which(command) or command):
        raise StageError("a script cannot run from a copy; name its interpreter")
    with opened(path) as fd:
        origin = copies.source(path, fd, options.fix, options.rodata)
        if origin is None:
            return Launch([TextResult(path, IN_PLACE)])
        copies.check(origin)
        if namespace.privileged(fd):
            raise StageError("it gives privileges, which a copy would lose")
        with using(_memory_file(os.path.basename(path))) as target:
            copies.write(origin, target)
            os.fchmod(target, 0o500)
            # Executed through a descriptor that the command does not get: the kernel opens the file before closing it.
            copy = os.open(f"/proc/self/fd/{target}", os.O_RDONLY | os.O_CLOEXEC)
        done = _measured(origin, copy, COPY)
    return Launch([done], f"/proc/self/fd/{copy}")


def _memory_file(name: str) -> int:
    try:
        return os.memfd_create(name[:200], _MFD_CLOEXEC | _MFD_EXEC)
    except OSError:
        return os.memfd_create(name[:200], _MFD_CLOEXEC)
