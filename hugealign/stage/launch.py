"""`hugealign run`: the best way to huge text for one command, taken in this process, which then becomes the command."""

import json
import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from hugealign.errors import HugealignError
from hugealign.machine import children, kernel, libraries
from hugealign.pagecache.programs import binary, warm_command
from hugealign.regular import opened
from hugealign.settings import MIN_TEXT
from hugealign.stage import copies, namespace, store
from hugealign.units import printable

#: How the text of a command is made huge.
AUTO, IN_PLACE, STAGE, COPY = "auto", "in-place", "stage", "copy"


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What to do for a command: *how*, with its shared libraries too (*libs*), with fixed copies (*fix*).

    *place* is the store that is looked into first; *wait* are the seconds that khugepaged gets in place.
    """

    how: str = AUTO
    libs: bool = False
    fix: bool = False
    place: str = store.DEFAULT
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class Text:
    """What became of one file: *huge* of *windows* windows, by *how*; *problem* says why not all."""

    path: str
    how: str
    windows: int
    huge: int
    problem: str = ""

    @property
    def whole(self) -> bool:
        """Whether all of its windows are huge."""
        return self.huge == self.windows and not self.problem


@dataclass(frozen=True, slots=True)
class Launch:
    """How the command is to be executed: *program* is what to execute in place of the first word, empty for that word.

    *texts* are the files that were looked at.
    """

    texts: Sequence[Text]
    program: str = ""

    @property
    def problem(self) -> str:
        """Why not all text is huge, in a line; empty if it is."""
        for text in self.texts:
            if not text.whole:
                return f"{printable(text.path)}: {text.huge} of {text.windows} windows huge: {text.problem}"
        return ""


def prepare(command: str, options: LaunchOptions) -> Launch:
    """Make the text of *command* huge, as well as this kernel, file system and user allow.  Raises HugealignError.

    In the end this process may be in a mount namespace of its own, and execute what it finds there.  Nothing else of it
    changes: what is warmed in place is warmed in a child.
    """
    if options.how == COPY:
        return _copied(command, options)
    texts: Sequence[Text] = ()
    if options.how in (AUTO, IN_PLACE):
        texts = _in_a_child(command, options)
        wants_fix = options.fix and any(not text.windows for text in texts)
        if options.how == IN_PLACE or (all(text.whole for text in texts) and not wants_fix):
            return Launch(texts)
    return Launch(_staged(command, options, texts))


def _in_a_child(command: str, options: LaunchOptions) -> list[Text]:
    """Warm the command's files; in a child, since a process that maps and measures is not the one to execute it."""

    def work() -> bytes:
        found = []
        for path, done in warm_command(command, options.libs, options.wait):
            if isinstance(done, HugealignError):
                found.append((path, 0, 0, str(done)))
            else:
                problem = f"{done.obstacle.text}; {done.obstacle.mend}" if done.obstacle and done.offsets else ""
                found.append((path, len(done.offsets), done.huge, problem))
        return json.dumps(found).encode()

    said = json.loads(children.result(work) or b"[]")
    return [Text(os.path.realpath(path), IN_PLACE, windows, huge, problem) for path, windows, huge, problem in said]


def _staged(command: str, options: LaunchOptions, before: Sequence[Text]) -> list[Text]:
    """Put huge copies over those of the command's files that are not huge *before*, in a namespace of our own."""
    texts = {text.path: text for text in before} or {
        path: Text(path, IN_PLACE, 0, 0) for path in _files(command, options)
    }
    with ExitStack() as stack:
        sources: list[copies.Source] = []
        try:
            wanted = [path for path, text in texts.items() if not (text.windows and text.whole)]
            sources = _sources(wanted, options.fix, stack)
            if sources and (reason := namespace.refusal()):
                raise namespace.NamespaceError(reason)
            for origin in sources:
                if namespace.privileged(origin.fd) and (os.geteuid() or namespace.nosuid(origin.fd)):
                    raise copies.StageError("it gives privileges, which its copy would not")
            texts |= {text.path: text for text in (_in_namespace(sources, options.place) if sources else ())}
        except HugealignError as error:
            for path in [origin.path for origin in sources] or list(texts)[:1]:
                windows = max(texts[path].windows, *(o.windows for o in sources if o.path == path), 0)
                texts[path] = Text(path, IN_PLACE, windows, texts[path].huge, f"not staged: {error}")
    return list(texts.values())


def _in_namespace(sources: Sequence[copies.Source], place: str) -> list[Text]:
    """Enter a namespace and bind a copy over each of *sources*: the store's, or one of our own."""
    entered = namespace.enter()
    shared = {origin.path: store.find(origin.path, origin.fd, place) for origin in sources}
    done = [_bound(entered, origin, shared[origin.path]) for origin in sources if shared[origin.path]]
    own = [origin for origin in sources if not shared[origin.path]]
    if not own:
        return done
    mounted = entered.mount_tmpfs([origin.path for origin in sources])
    try:
        for number, origin in enumerate(own):
            copy = os.path.join(mounted, str(number))
            try:
                target = os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
                try:
                    copies.write(origin, target)
                    if entered.user:
                        os.fchmod(target, os.fstat(origin.fd).st_mode & 0o777)
                    else:
                        copies.carry(origin, target)
                finally:
                    os.close(target)
                done.append(_bound(entered, origin, copy))
            except (OSError, HugealignError) as error:
                with suppress(OSError):
                    os.unlink(copy)
                reason = getattr(error, "strerror", None) or str(error)
                done.append(Text(origin.path, IN_PLACE, origin.windows, 0, f"not staged: {reason}"))
    finally:
        entered.detach(mounted)
    return done


def _bound(entered: namespace.Namespace, origin: copies.Source, copy: str) -> Text:
    """Bind *copy* over the file that *origin* is of, if its path still leads there.  Raises HugealignError."""
    target = os.open(origin.path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not os.path.samestat(os.fstat(target), os.fstat(origin.fd)):
            raise copies.StageError("another file took its name")
        entered.bind(copy, target)
    finally:
        os.close(target)
    with opened(copy) as fd:
        huge = copies.huge_windows(fd)
    windows = origin.windows
    problem = "" if huge == windows else "no free memory in one piece; try again, or: hugealign doctor"
    return Text(origin.path, STAGE, windows, huge, problem)


def _copied(command: str, options: LaunchOptions) -> Launch:
    """Make a huge copy in memory that has no path: for where no mount is allowed."""
    program = binary(command)
    if program is None:
        return Launch(())
    path = os.path.realpath(program)
    with opened(path) as fd:
        if os.pread(fd, 4, 0) != b"\x7fELF" or not os.path.samefile(path, _which(command)):
            raise copies.StageError("a script cannot run from a copy; name its interpreter")
        if namespace.privileged(fd):
            raise copies.StageError("it gives privileges, which a copy would lose")
        origin = copies.source(path, fd, options.fix)
        if origin is None:
            return Launch([Text(path, IN_PLACE, 0, 0)])
        target = os.memfd_create(os.path.basename(path), 0)
        copies.write(origin, target)
        os.fchmod(target, 0o500)
        copy = os.open(f"/proc/self/fd/{target}", os.O_RDONLY)
        os.close(target)
        huge = copies.huge_windows(copy)
        os.set_inheritable(copy, True)
        problem = "" if huge == origin.windows else "this kernel does not collapse files in memory (Linux 6.1 does)"
        return Launch([Text(path, COPY, origin.windows, huge, problem)], f"/proc/self/fd/{copy}")


def _sources(paths: Sequence[str], fix: bool, stack: ExitStack) -> list[copies.Source]:
    found = (copies.source(path, stack.enter_context(opened(path)), fix) for path in paths)
    return [origin for origin in found if origin]


def _files(command: str, options: LaunchOptions) -> list[str]:
    program = binary(command)
    if program is None:
        return []
    paths = (program, *(libraries.resolve(program).paths if options.libs else ()))
    return list(dict.fromkeys(os.path.realpath(path) for path in paths))


def _which(command: str) -> str:
    from shutil import which

    return which(command) or command


def worth_saying(launch: Launch) -> str:
    """Return the line to print of what is not huge; empty if all is, or if there is too little text to matter."""
    from hugealign.elf.coverage import coverage
    from hugealign.elf.image import read_file

    if launch.problem:
        return launch.problem
    for text in launch.texts[:1]:
        if not text.windows:
            with suppress(HugealignError, OSError):
                if coverage(read_file(text.path), kernel.huge_page_size()).text >= MIN_TEXT:
                    return f"{printable(text.path)}: no whole window of text; try: hugealign run --fix -- COMMAND"
    return ""
