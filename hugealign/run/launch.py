"""`hugealign run`: make text huge for one command the best way, in this process, which then becomes the command."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress

from hugealign.diagnosis.refusal import RefusalError, diagnosed
from hugealign.diagnosis.values import COMMAND, Diagnosis, Remedy, unpacked
from hugealign.elf.coverage import text_size
from hugealign.elf.image import read_image
from hugealign.elf.machines import least_text, native
from hugealign.errors import HugealignError
from hugealign.io import copying
from hugealign.io.descriptors import using
from hugealign.io.execution import binary, which
from hugealign.io.regular import FileError, opened
from hugealign.pagecache import measure
from hugealign.records import Record
from hugealign.run import copies, store
from hugealign.run.tunable import has_tunable
from hugealign.system import children, confinement, kernel, namespace

#: How to make the text of a command huge.
AUTO, IN_PLACE, STAGE, COPY = "auto", "in-place", "stage", "copy"
#: How text is huge that was staged before and not named: whether the command uses it is not known.
STORE = "store"
#: What a Dockerfile's CMD without brackets starts.
_SHELLS = ("sh", "dash", "bash", "busybox")
_FEW = 16  # files to try in place on a file system where one of them stayed small


class LaunchOptions(Record):
    """What to do for a command: *how*; *libs*: with its shared libraries; *fix*: with fixed copies.

    *files* are the paths of other programs and libraries that the command starts or opens, and of directories with
    such files.  *place* is the store to look into first; *wait* is the time in seconds that khugepaged gets in place.
    """

    how: str = AUTO
    libs: bool = False
    fix: bool = False
    place: str = store.DEFAULT
    wait: float = 0.0
    files: Sequence[str] = ()


class TextResult(Record):
    """The result for one file: *huge* of *windows* windows, made so by *how*; *diagnosis* says why not all.

    So many bytes of read-only data are *executable* in its fixed copy.
    """

    path: str
    how: str
    windows: int = 0
    huge: int = 0
    diagnosis: Diagnosis | None = None
    executable: int = 0

    @property
    def whole(self) -> bool:
        """Whether all its windows are huge."""
        return self.huge == self.windows and not self.diagnosis


class Launch(Record):
    """How to execute the command: *program* is the file to execute instead of the first word, empty for that word.

    *texts* are the files that were examined, the program first.  *tunable*: the program's loader can request huge pages
    itself.
    """

    texts: Sequence[TextResult]
    program: str = ""
    tunable: bool = False

    @property
    def worst(self) -> Sequence[TextResult]:
        """The one text to tell of, if not all is well: one whose windows are not all huge, else one without windows."""
        short = [text for text in self.texts if text.windows and not text.whole]
        none = [text for text in self.texts if not text.windows and text.diagnosis]
        # A small program starts or opens what was named.
        none.sort(key=lambda text: text.diagnosis is not None and text.diagnosis.code == "program.small")
        return (short or none)[:1]


def prepare(command: str, options: LaunchOptions) -> Launch:
    """Make the text of *command* huge, as well as this kernel, file system and user allow.  Raises HugealignError.

    Afterwards this process may be in a mount namespace of its own, and executes the files there.  Nothing else of it
    changes: a child warms the files that can be huge in place.
    """
    try:
        program = binary(command)
    except FileError as error:
        return Launch([_failed(TextResult(command, IN_PLACE), error)])
    if program is None and not options.files and not os.path.isdir(options.place):
        return Launch(())
    if program and options.how == COPY and not _is_itself(command, program):
        return Launch([_failed(TextResult(os.path.realpath(program), IN_PLACE), RefusalError("copy.script"))])
    launch = _prepared(command, program, options)
    if not any(text.windows for text in launch.texts):
        return launch
    if measure.huge_pages_disabled():
        from hugealign.pagecache import diagnose

        texts = [text.changed(huge=0, diagnosis=diagnose.disabled(text.path)) for text in launch.texts]
        return launch.changed(texts=texts)
    with suppress(HugealignError):
        return launch.changed(tunable=program is not None and has_tunable(program))
    return launch


def _is_itself(command: str, program: str) -> bool:
    """Return whether *command* executes the file *program*, not a script that has it as its interpreter."""
    return os.path.realpath(which(command) or command) == os.path.realpath(program)


class _Files(Record):
    """Real paths of the files to make huge: *programs*, *libraries*, those *named*, and those in *trees*."""

    programs: Sequence[str]
    libraries: Sequence[str]
    named: Sequence[str]
    trees: Mapping[str, Sequence[str]]

    @property
    def paths(self) -> list[str]:
        """All of them, each once."""
        below = (path for paths in self.trees.values() for path in paths)
        return list(dict.fromkeys((*self.programs, *self.libraries, *self.named, *below)))


def _files(program: str | None, options: LaunchOptions) -> _Files:
    libraries: Sequence[str] = ()
    if program and options.libs:
        from hugealign.system.libraries import resolve

        libraries = [path for path in resolve(program).paths if not copies.is_small_library(path)]
    return _Files(
        (os.path.realpath(program),) if program else (),
        libraries,
        tuple(os.path.realpath(path) for path in options.files if not os.path.isdir(path)),
        {top: _below(top) for top in options.files if os.path.isdir(top)},
    )


def originals(stack: ExitStack, program: str | None, options: LaunchOptions) -> list[copies.StagedFile]:
    """Return what `prepare` would stage for the ELF file *program* without a store, open until *stack* ends.

    A file whose copy would have no window is not among them, nor one that no copy may replace.  Raises HugealignError
    if the program is one of the latter.
    """
    fixes = copies.Fixes() if options.fix else None
    results, program = [], os.path.realpath(program) if program else None
    for path in _files(program, options).paths:
        with suppress(*(() if path == program else (HugealignError, OSError))):
            if origin := copies.source(path, stack.enter_context(opened(path)), fixes):
                copies.check(origin)
                results.append(origin)
    return results


def _prepared(command: str, program: str | None, options: LaunchOptions) -> Launch:
    files = _files(program, options)
    programs, named, trees = files.programs, files.named, files.trees
    texts = {path: TextResult(path, IN_PLACE) for path in files.paths}
    if options.how != STAGE:
        # A staged file was staged for a reason, and the attempt in place reads the file again.
        # A copy in memory is of the program alone.
        tried = files.libraries if options.how == COPY else texts
        in_place = [path for path in tried if options.how != AUTO or not _in_store(path, options)]
        texts |= {text.path: text for text in _in_a_child(in_place, options)}
    copy = ""
    if options.how != IN_PLACE:
        with _many_files() if trees else nullcontext():
            texts, copy = _staged(texts, command, program, options)
    alone = not any(text.windows for text in texts.values())
    for path in (*programs, *named):
        if not texts[path].windows and not texts[path].diagnosis:
            diagnosis = _without_windows(path, path in named, alone)
            texts[path] = texts[path].changed(diagnosis=diagnosis)
    done = [text for text in texts.values() if text.windows or text.diagnosis]
    done += [text for top, paths in trees.items() for text in _of_tree(top, [texts[path] for path in paths], options)]
    return Launch(done, copy)


def _below(top: str) -> list[str]:
    """Return the real paths of the files below *top* that have enough text, those with the most first."""
    from hugealign.verification import inputs

    return [os.path.realpath(place.path) for place in inputs.programs([top])]


def _of_tree(top: str, texts: Sequence[TextResult], options: LaunchOptions) -> Iterator[TextResult]:
    """Yield what there is to say of the directory *top*, with *texts*, if some of these have no window."""
    none = [text for text in texts if not text.windows and not text.diagnosis]
    if none or not texts:
        from hugealign.fixing import remedies

        page_size, remedy = kernel.huge_page_size(), None
        if not options.fix:
            remedy = next(filter(None, (remedies.edit(text.path, page_size) for text in none)), None)
        if remedy and remedy.kind == "fix":
            remedy = Remedy("run", ("hugealign", "run", "--fix", "--file", top, "--"), COMMAND)
        yield TextResult(top, IN_PLACE, diagnosis=Diagnosis("text.none-below", top, _counts(texts, none), remedy))


def _counts(texts: Sequence[TextResult], none: Sequence[TextResult]) -> dict[str, int | str]:
    return {"files": len(texts), "without": len(none), "page_size": kernel.huge_page_size()}


@contextmanager
def _many_files() -> Iterator[None]:
    """Open as many files as the hard limit allows; the command has the limit that it had."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def _without_windows(path: str, named: bool, alone: bool) -> Diagnosis | None:
    """Return why the file at *path*, the program or one that was *named*, has no window.

    Return None for a small program, which starts the programs that were named or loads libraries, unless it is
    *alone*: no text at all is huge.
    """
    with suppress(HugealignError), opened(path) as fd:
        size = text_size(read_image(fd))
        if size < (least := least_text(native())):
            if named:
                return Diagnosis("text.small", path, {"text": size, "least": least})
            kind = "exec-form" if os.path.basename(path) in _SHELLS else "name-files"
            remedy = Remedy(kind, ("hugealign", "advise", "--"), COMMAND)
            return Diagnosis("program.small", path, {"text": size}, remedy) if alone else None
    named_so = ("--file", path) if named else ()
    return copies.without_windows(path, "hugealign", "run", "--fix", *named_so, "--", needs=COMMAND)


def _failed(text: TextResult, error: Exception, windows: int = 0) -> TextResult:
    """Return *text*, whose file would have *windows*, with what *error* says of it."""
    return text.changed(how=IN_PLACE, windows=max(windows, text.windows), diagnosis=diagnosed(text.path, error))


def _in_store(path: str, options: LaunchOptions) -> bool:
    if not os.path.isdir(options.place):
        return False
    with suppress(HugealignError), opened(path) as fd, store.copy_of(fd, options.place) as copy:
        return copy is not None
    return False


def _in_a_child(paths: Sequence[str], options: LaunchOptions) -> list[TextResult]:
    """Warm the files at *paths* in a child: a process that maps and measures them should not be the one to execute."""

    def work() -> object:
        from hugealign.pagecache.warm import WarmOptions, warm

        results: list[object] = []
        explain = options.how == IN_PLACE  # else a copy is tried next
        small: set[int] = set()  # file systems, by st_dev, on which the text of a file stayed small
        for path in paths:
            try:
                device = os.stat(path).st_dev if len(paths) > _FEW else 0
                done = warm(path, WarmOptions(wait=options.wait, explain=explain, check=device in small))
                if device and done.offsets and not done.huge:
                    small.add(device)
            except (OSError, HugealignError) as error:
                failed = _failed(TextResult(path, IN_PLACE), error).diagnosis
                results.append((path, 0, 0, failed and failed.packed()))
                continue
            why = done.diagnosis if done.offsets else None
            results.append((path, len(done.offsets), done.huge, why and why.packed()))
        return results

    return [
        TextResult(path, IN_PLACE, windows, huge, why and unpacked(why))
        for path, windows, huge, why in children.result(work) or ()
    ]


def _staged(
    texts: Mapping[str, TextResult], command: str, program: str | None, options: LaunchOptions
) -> tuple[dict[str, TextResult], str]:
    """Put huge copies over the files that are not huge yet, or could have more windows, in a namespace of our own.

    And over those that the store has a copy of.  Where we may not mount, the program gets a copy without a path.
    Return the results, and what to execute instead of *command*, empty for the command itself.
    """
    results, copy = dict(texts), ""
    # An ordinary user's copies, those of libraries too, need a user namespace.
    gives_none = bool(os.geteuid()) and program is not None and namespace.privileged(program)
    with ExitStack() as stack:
        origins: list[_Origin] = []
        for text in texts.values():
            whole = bool(text.windows) and text.whole
            if whole and not options.fix:
                continue
            windows = text.windows
            try:
                origin = _origin(stack, text.path, options)
                if origin is None or (whole and origin.file.windows == text.windows):
                    continue
                windows = origin.file.windows
                copies.check(origin.file)
                if gives_none and options.how != COPY:
                    raise RefusalError("process.privileged-program")
                origins.append(origin)
            except (OSError, HugealignError) as error:
                results[text.path] = _failed(text, error, windows)
        for path in () if gives_none or options.how == COPY else store.shared(options.place):
            if path not in texts:  # not named: if its copy cannot be had, it is as if there were no store
                with suppress(OSError, HugealignError):
                    if (origin := _origin(stack, path, options, only_stored=True)) is not None:
                        copies.check(origin.file)
                        origins.append(origin)
        try:
            if origins and (reason := _no_mounts(options)):
                for origin in origins:
                    path = origin.file.path
                    if program and path == os.path.realpath(program):
                        results[path], copy = _copied(command, origin.file, options, reason)
                    elif path in texts:
                        results[path] = _uncopied(results[path], origin.file, RefusalError.of(reason), options)
                origins = []
            for text in _in_namespace(origins, options.place) if origins else ():
                if text.path in texts:
                    results[text.path] = text
                elif text.windows == text.huge:
                    results[text.path] = text.changed(how=STORE)
        except (OSError, HugealignError) as error:
            for origin in origins:
                path = origin.file.path
                if path in texts and results[path].how == IN_PLACE:
                    results[path] = _uncopied(results[path], origin.file, copies.uncopied(error), options)
    return results, copy


def _uncopied(text: TextResult, origin: copies.StagedFile, error: Exception, options: LaunchOptions) -> TextResult:
    """Return *text*, whose copy *error* prevents.

    If some of its windows are huge in place, and a copy would have no more, what is missing there is the reason: that
    is tried once more, since the first attempt does not look for it.
    """
    if text.huge and text.windows == origin.windows:
        for again in _in_a_child([text.path], options.changed(how=IN_PLACE)):
            if again.huge:
                return again
    return _failed(text, error, origin.windows)


def _no_mounts(options: LaunchOptions) -> Diagnosis | None:
    """Return why no copy is mounted, None if copies can be."""
    if options.how == COPY:
        return Diagnosis("copy.library", "", {})
    reason = namespace.refusal()
    return reason and reason.changed(remedy=Remedy("look", ("hugealign", "explain", reason.code)))


class _Origin(Record):
    """A *file* to stage; *copy* is what the store has of it, open, -1 if nothing."""

    file: copies.StagedFile
    copy: int = -1


def _origin(stack: ExitStack, path: str, options: LaunchOptions, *, only_stored: bool = False) -> _Origin | None:
    """Return what to stage of the file at *path*, which stays open until *stack* ends; None if nothing.

    The copy in the store is found and checked before we enter a user namespace: there, root's files would look like
    those of `nobody`.  Raises HugealignError.
    """
    fd, file = stack.enter_context(opened(path)), None
    kinds = (True,) if options.fix and not only_stored else (True, False)
    copy = stack.enter_context(store.copy_of(fd, options.place, kinds))
    if copy is None and not only_stored:
        file = copies.source(path, fd, copies.Fixes() if options.fix else None)
        if file and not file.output:
            copy = stack.enter_context(store.copy_of(fd, options.place, (False,)))
    if copy is not None:
        windows = len(measure.text_windows(copy))
        return _Origin(copies.StagedFile(path, fd, os.fstat(fd), windows), copy)
    return _Origin(file) if file else None


def _in_namespace(origins: Sequence[_Origin], place: str) -> Iterator[TextResult]:
    """Enter a namespace, and bind a copy over each of *origins*: one from the store, or a new one."""
    with ExitStack() as stack:
        entered = namespace.enter()
        own = []
        for origin in origins:
            if origin.copy < 0:
                own.append(origin.file)
            elif (copy := _same(place, origin.copy)) is not None:
                stack.callback(os.close, copy)
                yield _bound(origin.file, copy)
            else:  # dropped meanwhile
                gone = RefusalError("copy.failed", error="ENOENT")
                yield _failed(TextResult(origin.file.path, IN_PLACE), gone, origin.file.windows)
        if own:
            mounted = entered.mount_tmpfs([origin.file.path for origin in origins])
            stack.callback(namespace.detach, mounted)
            for file in own:
                yield _bound_own(entered, file, mounted)


def _same(place: str, trusted: int) -> int | None:
    """Open the copy *trusted* in the store at *place* again, through a mount of the namespace that we have entered."""
    with suppress(OSError):
        path = os.path.join(place, os.path.basename(os.readlink(f"/proc/self/fd/{trusted}")))
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        if os.path.samestat(os.fstat(fd), os.fstat(trusted)):
            return fd
        os.close(fd)
    return None


def _bound_own(entered: namespace.Namespace, origin: copies.StagedFile, mounted: str) -> TextResult:
    """Make a copy on the tmpfs *mounted*, and bind it."""
    path = os.path.join(mounted, origin.identity)
    try:
        with suppress(FileNotFoundError), using(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as copy:
            return _bound(origin, copy)  # the file has several names
        # A file that is open for writing cannot be executed (ETXTBSY).
        with using(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)) as target:
            copies.write(origin, target)
            copies.carry(origin, target, owner=not entered.user)
            if not entered.user:  # no other process has the copy; it confers what the file does
                copying.copy_privileges(origin.fd, target, origin.info)
            copy = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with using(copy):
            return _bound(origin, copy)
    except (OSError, HugealignError) as error:
        with suppress(OSError):
            os.unlink(path)  # frees its memory
        return _failed(TextResult(origin.path, IN_PLACE), copies.uncopied(error), origin.windows)


def _bound(origin: copies.StagedFile, copy: int) -> TextResult:
    """Bind *copy* over the file of *origin*, if its path still leads there."""
    try:
        bound = _measured(origin, copy, STAGE)
        with using(os.open(origin.path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)) as target:
            if not os.path.samestat(os.fstat(target), os.fstat(origin.fd)):
                raise RefusalError(copying.CHANGED)
            with using(namespace.tree(copy)) as made:
                namespace.attach(made, target)
    except (OSError, HugealignError) as error:
        return _failed(TextResult(origin.path, IN_PLACE), error, origin.windows)
    return bound


def _measured(origin: copies.StagedFile, copy: int, how: str) -> TextResult:
    """Return how much of the *copy* of *origin* is huge, and why not all of it is."""
    done = TextResult(origin.path, how, origin.windows, copies.huge_windows(copy), executable=origin.executable)
    return done if done.whole else done.changed(diagnosis=copies.diagnosis(copy).about(origin.path))


def _copied(
    command: str, origin: copies.StagedFile, options: LaunchOptions, reason: Diagnosis
) -> tuple[TextResult, str]:
    """Make a huge copy of the program in memory without a path, as we may not mount one for this *reason*.

    Return what came of it, and the path to execute.  Without --how=copy, only a program that a copy without a path does
    as well is copied.
    """
    from hugealign.run import memory_copies  # most starts do without

    text = TextResult(origin.path, IN_PLACE, origin.windows)
    try:
        if options.how == STAGE or not _is_itself(command, origin.path):
            raise RefusalError.of(reason)
        if options.how == AUTO and confinement.by_file():
            raise RefusalError.of(reason)
        if namespace.privileged(origin.fd):
            raise RefusalError("copy.privileges")
        if options.how == AUTO and memory_copies.looks_for_itself(origin.path):
            raise RefusalError("copy.own-path", reason.remedy)
        # Not the copy of a store: this process may see nothing but its path.
        whole = copies.source(origin.path, origin.fd, copies.Fixes() if options.fix else None) or origin
        copy = memory_copies.make(whole)
        return _measured(whole, copy, COPY), memory_copies.path(copy, os.path.basename(which(command) or command))
    except HugealignError as error:
        return _failed(text, error), ""
