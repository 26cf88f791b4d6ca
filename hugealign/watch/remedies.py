"""Find the remedy that gains most for a diagnosis about a running process."""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import ARGUMENTS, ROOT, Diagnosis, Remedy
from hugealign.elf.dynamic import read_dynamic
from hugealign.elf.image import read_image
from hugealign.elf.machines import least_text, native
from hugealign.errors import HugealignError
from hugealign.fixing import remedies
from hugealign.io import mounts
from hugealign.io.execution import which
from hugealign.io.regular import contains, opened
from hugealign.pagecache import diagnose
from hugealign.process import groups, procfs, starts
from hugealign.process.processes import Process
from hugealign.process.smaps import Mapping
from hugealign.records import Record
from hugealign.run import store
from hugealign.system import kernel, libraries, unitnames
from hugealign.watch import staged
from hugealign.watch.parts import CodeKind, CodePart
from hugealign.watch.reasons import ADAPT, ALLOW, FILE, KINDS, OPTION, RESTART

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.services.view import View

#: Programs that are not started through hugealign.
_MANAGERS = ("systemd", "init")
_LIBRARY = re.compile(r"\.so(\.[0-9.]+)?$")  # --libs finds these again
_UNIT_LIMIT = 1 << 20  # bytes of a unit file
#: Directories of packages of Python and of Node, and how many files are a command too long to type.
_PACKAGES, _SEVERAL = ("site-packages", "dist-packages", "node_modules"), 3


class Owner(Record):
    """The process of a part: how to start its *program*, and the system *service* that does, empty if none.

    *adapt* is the PID or name by which `hugealign adapt` finds it; *wrapper* is the script by which people start it.
    """

    pid: int
    exe: str
    program: str
    service: str
    adapt: str
    wrapper: str = ""

    @classmethod
    def of(cls, process: Process, adapt: str = "") -> Self:
        """Return the owner that *process* is."""
        service = groups.service(groups.of_process(process.pid))
        wrapper = "" if service or process.elsewhere else starts.wrapper(process.pid, process.program)
        named = service or adapt or str(process.pid)
        return cls(process.pid, process.exe, process.program, service, named, wrapper)


class Start(Record):
    """A start from huge text: of the *service* if there is one, else of the *program*, in its container if *inside*.

    *fix*: from files with edited headers; *files*: with these libraries, and the program itself behind a *wrapper*;
    *started*: with these programs, which the service's own program starts.
    """

    program: str
    service: str
    inside: bool
    fix: bool
    files: tuple[str, ...] = ()
    wrapper: str = ""
    started: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """The service, if it can be enabled from here."""
        return "" if self.inside else self.service

    @property
    def owner(self) -> tuple[str, bool]:
        """The service or program to start, and whether it is in a container."""
        return self.unit or self.program, self.inside

    def remedy(self, before: int | None, after: int | None) -> Remedy:
        """Return the command that makes the text huge; for a service, now and after each upgrade."""
        fix = ("--fix",) if self.fix else ()
        if self.unit:
            loaded = ("--libs",) if self.fix or self.files else ()  # as README's first way has it
            words = [*fix, *loaded, *(f"--file={path}" for path in self.started)]
            argv = ("hugealign", "enable", "--now", *words, unitnames.short(self.unit))
            return Remedy("run", argv, _root(), before, after)
        started = self.wrapper or self.program
        name = os.path.basename(started)
        if not self.inside and which(name) != started:
            name = started
        # A library is named by its file: the program may be linked with it, or open it later.
        named = _gathered(self.files)
        libs = _linked(self.program) if len(named) >= _SEVERAL and not (self.inside or self.wrapper) else frozenset()
        if len(libs.intersection(named)) < _SEVERAL:
            libs = frozenset()
        files = [word for path in named if path not in libs for word in ("--file", path)]
        argv = ("hugealign", "run", *fix, *(("--libs",) if libs else ()), *files, "--", name)
        if self.inside:
            return Remedy("start-inside", argv, ARGUMENTS, before, after)
        return Remedy("start", argv, ARGUMENTS, before, after)


class Remedied(Record):
    """A *diagnosis* with its remedy; *start* is set if that is a start."""

    diagnosis: Diagnosis
    start: Start | None = None


def together(remedied: Sequence[Remedied], kept: Sequence[Start] = ()) -> list[Remedied]:
    """Return *remedied* with one command for all parts of a service or program: each start forgets the one before.

    *kept* are the starts that made other parts huge.
    """
    starts: dict[tuple[str, bool], Start] = {}
    for start in (*kept, *(item.start for item in remedied if item.start)):
        known = starts.get(start.owner, start)
        files = tuple(dict.fromkeys((*known.files, *start.files)))
        started = tuple(dict.fromkeys((*known.started, *start.started)))
        starts[start.owner] = known.changed(fix=known.fix or start.fix, files=files, started=started)
    return [
        item.changed(diagnosis=item.diagnosis.changed(remedy=starts[item.start.owner].remedy(old.before, old.after)))
        if item.start and (old := item.diagnosis.remedy)
        else item
        for item in remedied
    ]


class Unit(Record):
    """A service as the command for it has to know it.

    *main* is its main process, 0 without one, and *refused* is why it cannot be enabled.  *given* are the programs that
    it was enabled with: the next `enable` forgets what it does not name.  *seen* are the files that it sees.
    """

    main: int = 0
    refused: Diagnosis | None = None
    given: tuple[str, ...] = ()
    seen: "View | None" = None

    def refuses(self, path: str) -> Diagnosis | None:
        """Return why the file that it sees at *path* cannot be covered."""
        if self.refused or not self.seen:
            return self.refused
        try:
            found = self.seen.find(path)
        except RefusalError as error:
            return error.diagnosis
        except (OSError, ValueError):
            return None
        setting = self.seen.covered(found)
        return Diagnosis("service.own-mount", path, {"file": path, "setting": setting}) if setting else None

    def has(self, path: str, inode: int) -> bool:
        """Return whether `enable` finds the file that it sees at *path*, which has the *inode*, though we may not."""
        with suppress(OSError, ValueError, RefusalError):
            return self.seen is not None and os.stat(self.seen.find(path).source).st_ino == inode
        return False

    @classmethod
    def of(cls, name: str) -> Self:
        """Return the service *name*."""
        from hugealign.services import dropins, mounting, programs, view  # only on machines with services

        with suppress(HugealignError):
            if programs.starts_early(name):
                return cls(refused=Diagnosis("service.starts-early", name, {"service": name}))
            service = programs.query(name, named=True)
            try:
                seen = view.View(service.settings, store.DEFAULT)
            except RefusalError as error:
                return cls(service.pid, error.diagnosis.about(name))
            place = mounting.mounted(service)
            refused = Diagnosis("service.mounts", name, {"mount": place}) if place else None
            given: list[str] = []
            with suppress(OSError), open(dropins.paths(name)[0], encoding="utf-8", errors="replace") as file:
                given = [path for path in dropins.given(file.read(_UNIT_LIMIT)) if not _LIBRARY.search(path)]
            return cls(service.pid, refused, tuple(given), seen)
        return cls()


class Remedies:
    """Find remedies, and remember facts about files and services until they change."""

    def __init__(self) -> None:
        self._files: dict[tuple[int, int, int], Diagnosis] = {}
        self._units: dict[str, Unit] = {}

    def find(self, owner: Owner, part: CodePart, diagnosis: Diagnosis, wanted: int) -> Remedied:
        """Return the *diagnosis* of a *part* with its remedy; *wanted* windows can be huge as the file is."""
        if kernel.has_thp() is False:
            return Remedied(Diagnosis("machine.no-thp", part.path, {}))
        kind = KINDS.get(diagnosis.code)
        if kind == FILE:
            return self._of_file(owner, part, diagnosis, wanted)
        if closer := self._closer(owner, part, diagnosis):
            return Remedied(closer)
        remedy = None
        if kind == ALLOW:
            remedy = Remedy("allow-huge-pages")
            lifted = diagnose.disabled(part.path).remedy
            if lifted and not owner.service:
                argv = (*lifted.argv, owner.wrapper or owner.program)
                remedy = Remedy("start", argv, ARGUMENTS, part.huge(), wanted)
        elif kind == RESTART:
            remedy = Remedy("restart")
            if owner.service:
                remedy = Remedy("run", ("systemctl", "restart", owner.service), _root())
            if diagnosis.code == "process.mapped-small":  # of other files it is not known what the page cache has
                remedy = remedy.changed(before=part.huge(), after=wanted)
        elif kind == ADAPT:
            remedy = Remedy("run", ("hugealign", "adapt", owner.adapt), _root())
            if diagnosis.facts.get("option"):
                remedy = Remedy("adapt-or-option", remedy.argv, remedy.needs)
        elif kind == OPTION and diagnosis.facts["option"]:
            remedy = Remedy("set-option", before=0, after=part.text // kernel.huge_page_size())
        return Remedied(diagnosis.changed(remedy=remedy))

    def _closer(self, owner: Owner, part: CodePart, diagnosis: Diagnosis) -> Diagnosis | None:
        """Return what is behind the *diagnosis*, if a further look shows that."""
        if diagnosis.code == "file.replaced" and _unpacked(owner.pid, _as_mapped(owner.pid, part)):
            return diagnosis.changed(code="file.unpacked")
        if diagnosis.code == "process.text-written" and self._relocated(owner, part):
            return diagnosis.changed(code="text.relocations", remedy=Remedy("compile-pic"))
        if diagnosis.code == "process.thp-disabled" and _disables_itself(owner):
            return diagnosis.changed(code="program.thp-disabled")
        return None

    def kept(self, owner: Owner, part: CodePart) -> Start | None:
        """Return the start that made a *part* huge, None if none did."""
        if part.kind == CodeKind.CODE or part.path not in staged.covered(owner.pid):
            return None
        return _start(owner, part, inside=False, fix=True, started=self._started(owner))

    def _of_file(self, owner: Owner, part: CodePart, diagnosis: Diagnosis, wanted: int) -> Remedied:
        if part.text < (least := least_text(native())):
            return Remedied(Diagnosis("text.small", part.path, {"text": part.text, "least": least}))
        huge, possible = part.huge(), part.possible()
        largest = max(part.mappings, key=lambda mapping: (mapping.is_file, mapping.size))
        path, inside = _reached(owner.pid, largest)
        file = None
        with suppress(HugealignError, OSError):
            file = self._file(path, largest.inode) if path else None
        if file is None:
            return Remedied(Diagnosis("file.out-of-reach", part.path, {"windows": possible - huge}))
        contained = inside and groups.container(groups.of_process(owner.pid))  # what starts it is its engine
        if not contained and (refused := self._refused(owner, part.path)):
            facts = {**refused.facts, "windows": possible - huge}
            return Remedied(refused.changed(subject=part.path, facts=facts, remedy=None))
        copied = part.path in staged.covered(owner.pid)
        if not copied and _unpacked(owner.pid, path):
            return Remedied(Diagnosis("file.unpacked", part.path, {"windows": possible - huge}))
        if file.code == "file.not-elf":  # an assembly of .NET, for example
            return Remedied(file.changed(subject=part.path))
        edited = file.remedy.after or 0 if file.remedy else 0
        if not possible and not edited:
            # The file itself says why, and what to do.
            remedy = file.remedy and file.remedy.changed(before=0, after=-(-part.text // kernel.huge_page_size()))
            return Remedied((diagnosis if remedy else file.changed(subject=part.path)).changed(remedy=remedy))
        inside = inside and not copied and not self._unit(owner).has(part.path, largest.inode)
        start = _start(owner, part, inside, copied or edited > possible, self._started(owner))
        remedy = start.remedy(huge, edited if edited > possible else wanted)
        return Remedied(diagnosis.changed(remedy=remedy), start)

    def _file(self, path: str, inode: int) -> Diagnosis | None:
        """Return what `remedies.diagnose` says about the file at *path*, None if it is another file than *inode*."""
        with opened(path) as fd:
            info = os.fstat(fd)
        if info.st_ino != inode:  # a link of the process's may have led elsewhere meanwhile
            return None
        identity = info.st_dev, info.st_ino, info.st_ctime_ns
        if identity not in self._files:
            self._files[identity] = remedies.diagnose(path, kernel.huge_page_size())
        return self._files[identity]

    def _relocated(self, owner: Owner, part: CodePart) -> bool:
        """Return whether the loader writes to the text of a *part*."""
        path, _ = _reached(owner.pid, part.mappings[0])
        with suppress(HugealignError, OSError), opened(path) as fd:
            return read_dynamic(fd, read_image(fd)).textrel
        return False

    def _unit(self, owner: Owner) -> Unit:
        if owner.service not in self._units:
            self._units[owner.service] = Unit.of(owner.service) if owner.service else Unit()
        return self._units[owner.service]

    def _refused(self, owner: Owner, path: str) -> Diagnosis | None:
        """Return why nothing can start the program from a copy of *path*: it is the manager, or such a service."""
        if os.path.basename(owner.exe) in _MANAGERS:
            return Diagnosis("service.starts-early", owner.exe, {"service": owner.service})
        return self._unit(owner).refuses(path)

    def _started(self, owner: Owner) -> tuple[str, ...]:
        """Return the programs to name for the service: those it was enabled with, and this one if that starts it."""
        unit = self._unit(owner)
        if unit.main and not _same_program(owner.pid, unit.main):
            return tuple(dict.fromkeys((*unit.given, owner.program)))
        return unit.given


def _same_program(pid: int, other: int) -> bool:
    """Return whether both processes execute one file; without the right to look, whether they have one name."""
    with suppress(OSError):
        return pid == other or procfs.identity(f"/proc/{pid}/exe") == procfs.identity(f"/proc/{other}/exe")
    with suppress(OSError):
        return procfs.stat(f"/proc/{pid}/stat").comm == procfs.stat(f"/proc/{other}/stat").comm
    return True


def _disables_itself(owner: Owner) -> bool:
    """Return whether the program can disable huge pages and what has started it did not: the setting is inherited."""
    with suppress(OSError):
        parent = procfs.stat(f"{procfs.PROC}/{owner.pid}/stat").parent
        if parent and (parent != 1 or owner.service):
            inherited = procfs.without_thp(procfs.status(f"{procfs.PROC}/{parent}/status"))
            return not inherited and contains(f"{procfs.PROC}/{owner.pid}/exe", (b"\0prctl\0",))
    return False


def _gathered(files: Sequence[str]) -> Sequence[str]:
    """Return *files* with the directory of packages that has several of them in their place: one word to type."""
    places: dict[str, list[str]] = {}
    for path in files:
        top, mark, _ = next((cut for name in _PACKAGES if (cut := path.partition(f"/{name}/"))[1]), ("", "", ""))
        places.setdefault(f"{top}{mark.rstrip('/')}" or path, []).append(path)
    return [word for place, same in places.items() for word in ([place] if len(same) >= _SEVERAL else same)]


def _linked(program: str) -> frozenset[str]:
    """Return the libraries that the *program* is linked with, as `hugealign run --libs` finds them."""
    with suppress(HugealignError, OSError):
        return frozenset(libraries.resolve(program).paths)
    return frozenset()


def _start(owner: Owner, part: CodePart, inside: bool, fix: bool, started: tuple[str, ...]) -> Start:
    wrapper = "" if inside else owner.wrapper
    files = (part.path,) if wrapper or part.kind == CodeKind.LIBRARY else ()
    return Start(owner.program, owner.service, inside, fix, files, wrapper, started)


def _unpacked(pid: int, path: str) -> bool:
    with suppress(OSError):
        return starts.unpacked(pid, path)
    return False


def _as_mapped(pid: int, part: CodePart) -> str:
    """Return a path that leads to the file of *part* even if it has no name any more, as root."""
    mapping = part.mappings[0]
    return f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}"


def _root() -> str:
    return ROOT if os.geteuid() else ""


def _reached(pid: int, mapping: Mapping) -> tuple[str, bool]:
    """Return the path by which hugealign reaches the file of *mapping*, or "", and whether only the process sees it."""
    if mounts.served(os.makedev(*mapping.device), pid):
        return "", False
    for process, path in (("self", mapping.path), (str(pid), f"/proc/{pid}/root{mapping.path}")):
        if mounts.behind_server(mapping.path, process):
            continue
        with suppress(OSError, ValueError):
            device, inode = procfs.identity(path)
            if inode == mapping.inode and not mounts.served(device, process):
                return path, process != "self"
    return "", False
