"""The link itself: run the real linker with our arguments, look at what came out, mend it or say so.

The first word of every rule here is that a link which passes without hugealign passes with it.  On any doubt the
real linker runs with the user's arguments untouched.
"""

import os

from hugealign.environment import as_given
from hugealign.errors import HugealignError
from hugealign.link import command as commands
from hugealign.link import estimate, linkers
from hugealign.settings import Settings, from_environ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from hugealign.elf.image import Image
    from hugealign.link.ordered import Ordered

_PAD = "pad-x86_64.o"  # what stands for the objects with our pad, of any processor
_SCRIPT_LIMIT = 1 << 20  # bytes of a user's linker script that are read
_IGNORED_BY_PYTHON = (13, 25)  # SIGPIPE and SIGXFSZ; the module `signal` costs a third of our start-up time


class Run:
    """A finished run of the linker: its exit *status* (negative: killed by that signal) and what it printed."""

    __slots__ = ("status", "stderr", "stdout")

    def __init__(self, status: int, stdout: bytes = b"", stderr: bytes = b"") -> None:
        self.status = status
        self.stdout = stdout
        self.stderr = stderr

    def complaint(self) -> str:
        """Return the first line of what the linker said of its failure."""
        lines = self.stderr.decode("utf-8", "replace").splitlines() or [f"status {self.status}"]
        return lines[0].strip()

    def forward(self) -> None:
        """Print what the linker printed."""
        for fd, data in ((1, self.stdout), (2, self.stderr)):
            written = 0
            while written < len(data):
                written += os.write(fd, data[written:])


class Shim:
    """One call of the shim: the *real* linker, the user's *arguments* and what the environment asks for.

    *started* names the recipe with which sh/shim.sh has started the link already, if it has.
    """

    def __init__(self, real: str, arguments: list[str], settings: Settings, started: str = "") -> None:
        self.started = started
        self.real = real
        self.arguments = arguments
        self.settings = settings
        self.command = commands.Command()
        self.words = arguments  # without response files
        self.order: Ordered | None = None
        self.memory: dict[str, str] = {}  # files in memory, and what each was made from
        self.linked = False

    def link(self) -> int:
        """Do the whole link and return the exit status of it.  Does not return where it keeps out."""
        try:
            words = commands.expand(self.arguments, _read_response)
        except RecursionError:
            self.keep_out("response files name each other")
        self.words = words
        self.command = commands.parse(words)
        reason = self.doubt()
        if self.started:
            run = self.wait_for_started()
            if reason is None:
                return self.laid_out(linkers.named(self.started), run=run)
        linker = linkers.identify(self.real)
        if not reason and linker is None:
            linker = linkers.identify(self.real, self.version())
        if reason or linker is None:
            self.keep_out(reason or "the linker cannot be identified")
        if user := self.command.max_page_size:
            # A larger page of the user's own is a page size of ours too, where ours divides it.
            self.settings.page_size = max(self.settings.page_size, user - user % self.settings.page_size)
        small = estimate.code_bytes(self.command, self.settings.min_text) < self.settings.min_text
        if small:
            run = self.plain()
            if run.status or self.is_small():
                return run.status
        if self.settings.profile:
            self.order = self.read_order(linker)
        return self.laid_out(linker, quiet=small)

    def read_order(self, linker: linkers.Linker) -> "Ordered | None":
        """Return the order of the profile for this link; None, and say why, where there can be none."""
        from hugealign.link import ordered

        machine = self.command.machine
        assert machine is not None  # noqa: S101  # doubt() has seen to it
        if self.command.ordered:
            self.warn("linked without the order of HUGEALIGN_PROFILE: the command line has one of its own")
        elif not linker.order_form(machine):
            self.warn(f"linked without an order, which {linker.name} cannot make; use -fuse-ld=lld or -fuse-ld=bfd")
        else:
            try:
                settings = self.settings
                return ordered.read(settings.profile, linker, self.command, machine, settings.order_objects, self.real)
            except HugealignError as error:
                self.warn(f"linked without an order: {error}; make one: hugealign order PROFILE -b PROGRAM -o FILE")
        return None

    def wait_for_started(self) -> Run:
        """Return the outcome of the link that sh/shim.sh has started; it comes from stdin, the status last."""
        import hugealign.elf.edit
        import hugealign.verification.rules  # noqa: F401  # loaded while the linker works

        stderr, _, status = _read_to_end(0).rpartition(b"\n")
        number = int(status)
        return Run(number if number <= 128 else 128 - number, b"", stderr)

    def doubt(self) -> str | None:
        """Return why this link is none of our business, or None."""
        command, settings = self.command, self.settings
        if command.hands_off:
            return command.hands_off
        if not command.inputs:
            return "there is nothing to link"
        if command.machine is None:
            command.machine = estimate.machine_of(command)
        if command.machine not in linkers.SUPPORTED:
            return "the target is not one that hugealign knows"
        if command.image_base is not None and command.image_base % settings.page_size:
            return "the image base that is asked for is not on a window"
        if os.path.exists(command.output) and not os.path.isfile(command.output):
            return "the output is not a regular file"
        if not _wanted(command.output, settings):
            return "left out by HUGEALIGN_ONLY or HUGEALIGN_SKIP"
        if not os.path.isdir("/proc/self/fd"):
            return "/proc is not mounted"
        for script in command.scripts:
            text = _script_text(script, command.library_paths)
            if "INSERT" not in text or "PHDRS" in text:
                return "a full linker script of the user's own"
        return None

    def keep_out(self, reason: str) -> "NoReturn":
        """Become the real linker."""
        self.debug(f"left alone: {reason}")
        _become([self.real, *self.arguments])

    def version(self) -> str:
        """Return what the real linker's ``--version`` prints."""
        run = self.spawn([self.real, "--version"], capture=True)
        return run.stdout.decode("utf-8", "replace").partition("\n")[0]

    def plain(self) -> Run:
        """Link as without us."""
        return self.spawn([self.real, *self.arguments], capture=False)

    def laid_out(self, linker: linkers.Linker, quiet: bool = False, run: Run | None = None) -> int:
        """Link with our arguments, unless *run* did; *quiet* if a plain link before has printed what there is."""
        run = run or self.with_recipe(linker, pad_size=0)
        image = self.output() if run.status == 0 else None
        if image and linker.two_pass and (pad_size := self.missing_pad(image)):
            run = self.with_recipe(linker, pad_size)
            image = self.output() if run.status == 0 else None
        if run.status and self.order:
            return self.without_order(linker, run, quiet)
        if run.status:
            return self.without_recipe(run, quiet)
        if image is None:  # for example --version among the arguments
            run.forward()
            return run.status
        if self.is_small(image):
            return self.plain().status
        self.linked = True
        if not quiet:
            run.forward()
        return self.check(linker, image)

    def with_recipe(self, linker: linkers.Linker, pad_size: int) -> Run:
        """Run the linker with our arguments, its output kept back."""
        machine = self.command.machine
        assert machine is not None  # noqa: S101  # doubt() has seen to it
        from hugealign.elf.objectfile import pad_object

        note = self.order.note(self.settings.page_size) if self.order else b""
        pad = self.memory_file(_PAD, pad_object(machine, linker.pad_section, pad_size, note))
        script = self.script(linker, machine) if linker.script else None
        user = self.arguments
        if self.order:
            user = self.order.arguments(user, self.words, machine, self.memory_file)
        words = linker.arguments(user, self.settings.page_size, pad, script)
        if self.order:
            words = self.order.options(machine, self.memory_file) + words
        words += linker.base(self.command, self.settings.page_size)
        self.debug(f"{self.real} as {linker.name}: {' '.join(linker.flags(self.settings.page_size))}")
        run = self.spawn([self.real, *words], capture=True)
        if not self.command.reports and b"/proc/self/fd/" not in run.stdout + run.stderr:
            return run
        from hugealign.link import reports

        names = self.memory | (self.order.copies.made if self.order and self.order.copies else {})
        for path, dependencies in self.command.reports:
            reports.mend(path, names, dependencies)
        return Run(run.status, reports.renamed(run.stdout, names), reports.renamed(run.stderr, names))

    def memory_file(self, name: str, data: bytes) -> str:
        """Return a path, good in our children too, of a file that vanishes with us however we end.

        What the linker says of it is said of the file that it was made from, which *name* tells.
        """
        fd = os.memfd_create(name, 0)
        os.write(fd, data)
        path = f"/proc/self/fd/{fd}"
        from hugealign.resources import directory

        ours = os.path.join(directory("ld-scripts"), name)
        self.memory[path] = ours if name.endswith((".o", ".ld")) else self.settings.profile
        return path

    def script(self, linker: linkers.Linker, machine: int) -> str:
        """Return the path of the script for *linker*, with the pad threshold that is asked for."""
        from hugealign.resources import directory

        name = linker.script_name(machine)
        path = os.path.join(directory("ld-scripts"), name)
        if self.settings.pad_threshold == linkers.SCRIPT_THRESHOLD:
            return path
        with open(path, "rb") as file:
            text = file.read()
        default, asked = (b"> %d ?" % size for size in (linkers.SCRIPT_THRESHOLD, self.settings.pad_threshold))
        return self.memory_file(name, text.replace(default, asked))

    def without_order(self, linker: linkers.Linker, failed: Run, quiet: bool) -> int:
        """Link with the layout alone after a link with an order too has *failed*; say so if that helps."""
        self.order = None
        status = self.laid_out(linker, quiet)
        if status == 0:
            self.warn(f"linked without an order, because with it the linker said: {failed.complaint()}")
        return status

    def without_recipe(self, failed: Run, quiet: bool) -> int:
        """Link without our arguments after a link with them has *failed*; say so if that helps."""
        run = self.plain() if not quiet else self.spawn([self.real, *self.arguments], capture=True)
        if run.status == 0:
            self.warn(f"linked without huge-page layout, because with it the linker said: {failed.complaint()}")
        return run.status

    def missing_pad(self, image: "Image") -> int:
        """Return the bytes of padding that a second link needs.

        In steps of the largest alignment behind the pad, so that what lies there moves by just as much.
        """
        from hugealign.elf.coverage import pad_range

        if len(image.text_segments) != 1:
            return 0
        segment = image.text_segments[0]
        tail = segment.p_memsz % self.settings.page_size
        if tail <= self.settings.pad_threshold:
            return 0
        start, end = pad_range(image, segment)[1], segment.p_vaddr + segment.p_memsz
        behind = (s for s in image.sections if s.sh_size and start <= s.sh_addr < end)
        step = max([64, *(s.sh_addralign for s in behind)])
        return (self.settings.page_size - tail) // step * step

    def check(self, linker: linkers.Linker, image: "Image") -> int:
        """Hold the output, *image*, against the rules, mend it where that can be done; return the exit status."""
        from hugealign.elf import edit
        from hugealign.verification import rules

        if not linker.script:
            image = self.mend(image)
        if self.order:
            self.sign(self.order, image)
        if linker.dense(image.e_machine):
            edit.dig_holes(self.command.output, image, linker.pad_section)
        if self.settings.check == "off":
            return 0
        policy = rules.Policy(self.settings.page_size, self.settings.min_text, self.settings.pad_threshold)
        # Warnings are left to `verify`: of data among the text gold's plain links have as much.
        findings = [finding for finding in rules.check(image, policy) if finding.rule.severity == rules.ERROR]
        if not findings:
            return 0
        finding = findings[0]
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        mend = finding.rule.fix if linker.script else "relink with -fuse-ld=bfd"
        self.warn(f"{finding.message}{more} [{finding.rule.id}]; {mend}")
        if self.settings.check == "error":
            os.unlink(self.command.output)
            return 1
        return 0

    def sign(self, order: "Ordered", image: "Image") -> None:
        """Complete the note of the output, and say what became of the order."""
        hot = order.sign(self.command.output, image)
        if self.settings.debug:
            self.debug(order.summary())
            self.debug("hot functions: " + (f"{hot[0]:#x} to {hot[1]:#x}" if hot else "no note"))
        if complaint := order.complaint(image.e_machine):
            self.warn(complaint)

    def mend(self, image: "Image") -> "Image":
        """Grow the text of the output to the end of its last window, where that can be done; return the new image."""
        from hugealign.elf import edit

        segments = image.text_segments
        if len(segments) != 1 or segments[0].p_memsz % self.settings.page_size <= self.settings.pad_threshold:
            return image
        plan = edit.plan_tail(image, self.settings.page_size)
        if isinstance(plan, str):
            self.debug(f"the tail cannot be mended: {plan}")
            return image
        fd = os.open(self.command.output, os.O_RDWR | os.O_CLOEXEC)
        try:
            edit.apply(fd, plan)
        finally:
            os.close(fd)
        return self.output() or image

    def is_small(self, image: "Image | None" = None) -> bool:
        """Return whether the output has less text than is worth it, or is nothing that has text at all."""
        image = image or self.output()
        if image is None:
            return True
        from hugealign.elf.coverage import coverage

        return coverage(image, self.settings.page_size).text < self.settings.min_text

    def output(self) -> "Image | None":
        """Return the headers of the output, or None if there is no ELF file."""
        from hugealign.elf.image import read_file

        try:
            return read_file(self.command.output)
        except (OSError, HugealignError):
            return None

    def spawn(self, argv: list[str], capture: bool) -> Run:
        """Run the linker and wait for it; with *capture* its output goes to memory."""
        streams = []
        actions = []
        if capture:
            streams = [os.memfd_create(name, os.MFD_CLOEXEC) for name in ("stdout", "stderr")]
            actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams, 1)]
        pid = os.posix_spawn(argv[0], argv, as_given(), file_actions=actions, setsigdef=_IGNORED_BY_PYTHON)
        import hugealign.elf.edit
        import hugealign.verification.rules  # noqa: F401  # loaded while the linker works

        try:
            if self.order and capture and self.command.machine:
                self.order.complaint(self.command.machine)  # to know it when the linker is done
        finally:
            _, status = os.waitpid(pid, 0)
        return Run(os.waitstatus_to_exitcode(status), *(_contents(fd) for fd in streams))

    def warn(self, message: str) -> None:
        """Print one line about the output."""
        from hugealign.units import printable

        _say("warning", f"{printable(self.command.output)}: {printable(message)}")

    def debug(self, message: str) -> None:
        """Print one line if HUGEALIGN_DEBUG asks for it."""
        if self.settings.debug:
            from hugealign.units import printable

            _say("debug", f"{printable(self.command.output)}: {printable(message)}")


def _say(kind: str, message: str) -> None:
    os.write(2, f"hugealign: {kind}: {message}\n".encode("utf-8", "backslashreplace"))


def _read_response(path: str) -> str:
    with open(path, "rb") as file:
        return os.fsdecode(file.read())


def _script_text(path: str, library_paths: list[str]) -> str:
    """Return the text of the linker script *path*, sought as GNU ld seeks it; empty if it cannot be read."""
    for directory in ("", *library_paths):
        candidate = os.path.join(directory, path)
        if os.path.isfile(candidate):
            try:
                with open(candidate, "rb") as file:
                    return file.read(_SCRIPT_LIMIT).decode("latin-1")
            except OSError:
                return ""
    return ""


def _wanted(output: str, settings: Settings) -> bool:
    """Return whether *output* is chosen by ONLY and not by SKIP: globs of its name, or of its path if with a slash."""
    if not settings.only and not settings.skip:
        return True
    from fnmatch import fnmatchcase

    def matches(globs: tuple[str, ...]) -> bool:
        return any(fnmatchcase(output if "/" in glob else os.path.basename(output), glob) for glob in globs)

    return (not settings.only or matches(settings.only)) and not matches(settings.skip)


def _read_to_end(fd: int) -> bytes:
    data = bytearray()
    while chunk := os.read(fd, 1 << 16):
        data += chunk
    return bytes(data)


def _contents(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    data = os.pread(fd, size, 0)
    os.close(fd)
    return data


def _become(argv: list[str]) -> "NoReturn":
    import signal

    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    os.execve(argv[0], argv, as_given())  # noqa: S606


def _leave(status: int) -> "NoReturn":
    """End as the linker ended: with its status, or by its signal, so that the driver sees what it would have seen."""
    if status < 0:
        import signal

        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def main(argv: list[str]) -> "NoReturn":
    """Run as a linker: *argv* is the recipe started with or an empty word, the real linker, the user's arguments."""
    started, real, *arguments = argv
    try:
        settings = from_environ(os.environ)
    except HugealignError as error:
        _say("error", str(error))
        os._exit(125)
    shim = Shim(real, arguments, settings, started)
    try:
        status = shim.link()
    except KeyboardInterrupt:
        _leave(-2)
    except Exception as error:  # noqa: BLE001  # whatever is wrong with us, the user's link comes first
        shim.warn(f"linked without a check, because hugealign failed: {type(error).__name__}: {error}")
        if started:
            _read_to_end(0)  # the linker that was started must not write beside the one that we become
        if not shim.linked:
            _become([real, *arguments])
        status = 0
    if started and status < 0:
        os._exit(128 - status)  # sh/shim.sh waits for us, and passes the signal on
    _leave(status)
