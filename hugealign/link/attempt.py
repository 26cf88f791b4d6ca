"""One attempt at a laid-out link: run the linker with our arguments, then complete its output."""

import os

from hugealign.errors import HugealignError
from hugealign.io.descriptors import file_at, using
from hugealign.link import linkers, running
from hugealign.link.estimate import abi_flags
from hugealign.link.running import MemoryFiles
from hugealign.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hugealign.elf.guards import Guards
    from hugealign.elf.image import Image
    from hugealign.link.job import Job
    from hugealign.link.order.plan import OrderedLink, Words
    from hugealign.link.running import LinkerRun


#: How often a link is repeated to size its pads.  wild puts the section headers before the text, and leaves one out if
#: its section is empty, as the end of RELRO may be when the text ends on a window.
_AGAIN = 3


class Recipe(Record):
    """How a job is linked: the *linker*, and the *order* of a profile or None.

    With *stack_note* the pad says that it needs no executable stack.
    """

    linker: linkers.Linker
    order: "OrderedLink | None" = None
    stack_note: bool = True


class Output(Record):
    """The headers and the guards of what a link has written."""

    image: "Image"
    guards: "Guards"


class Attempt(Record):
    """The result: the *run*, the *output* if there is one, and *notes* for debugging.

    *complaint* is the warning about the order, or None.
    """

    run: "LinkerRun"
    output: Output | None = None
    complaint: str | None = None
    notes: tuple[str, ...] = ()


def plain(job: "Job", capture: bool = False) -> "LinkerRun":
    """Link with the user's arguments alone."""
    return running.spawn([job.real, *job.arguments], capture, load_checks)


def read_output(job: "Job") -> Output | None:
    """Return what the link has written, None if that is not an ELF file.

    A file that an earlier build has left under that name does not count.
    """
    from hugealign.elf.guards import read_guards
    from hugealign.elf.image import read_image
    from hugealign.link.job import state

    if job.before and job.before == state(job.output):
        return None
    try:
        with file_at(job.output) as fd:
            image = read_image(fd)
            return Output(image, read_guards(fd, image))
    except (OSError, HugealignError):
        return None


def laid_out(job: "Job", recipe: Recipe, run: "LinkerRun | None" = None) -> Attempt:
    """Link by *recipe*, unless *run* already did, and complete the output.  Raises OSError."""
    memory = MemoryFiles()
    words = recipe.order.words(memory) if recipe.order else None

    def meanwhile() -> str | None:
        load_checks()
        return recipe.order.complaint(words) if recipe.order and words else None

    sizes = (0, 1)
    run = run or _run(job, recipe, words, memory, sizes, meanwhile)
    complaint = run.meanwhile
    output = read_output(job) if run.status == 0 else None
    for _ in range(_AGAIN):
        if not output or not (needed := _missing_pads(job, recipe, output.image, sizes[0])):
            break
        sizes = needed
        run = _run(job, recipe, words, memory, sizes, load_checks)
        output = read_output(job) if run.status == 0 else None
    if output is None:
        return Attempt(run)
    notes: list[str] = []
    if not recipe.linker.script and (reason := _grow_text(job, output.image)) is not None:
        notes += [f"the tail cannot be made whole: {reason}"] if reason else []
        output = read_output(job) or output
    if recipe.order:
        hot = recipe.order.sign(output.image)
        if job.settings.debug and words:
            notes += [recipe.order.summary(words)]
            notes += ["hot functions: " + (f"{hot[0]:#x} to {hot[1]:#x}" if hot else "no note")]
            notes += [recipe.order.placed(hot)] if hot else []
        complaint = complaint or recipe.order.nothing(hot)
    return Attempt(run, output, complaint, tuple(notes))


def _run(
    job: "Job",
    recipe: Recipe,
    order: "Words | None",
    memory: MemoryFiles,
    pad_sizes: tuple[int, int],
    meanwhile: "Callable[[], str | None]",
) -> "LinkerRun":
    """Run the linker with our arguments; hold back its messages and name real files in them, not files in memory."""
    from hugealign.elf.objectfile import Pad, pad_object
    from hugealign.io.resources import directory

    linker, settings = recipe.linker, job.settings
    flags = abi_flags(job.command, job.machine) if job.machine.flags else 0
    pad = Pad(
        job.machine,
        linker.pad_section,
        pad_sizes[0],
        recipe.order.note() if recipe.order else b"",
        stack_note=recipe.stack_note,
        lead=linker.lead_section,
        lead_size=pad_sizes[1],
        retain=linker.retained,
        flags=flags,
    )
    pad_path = memory.file(
        linkers.PAD_OBJECT, pad_object(pad), os.path.join(directory("ld-scripts"), linkers.PAD_OBJECT)
    )
    script = _script(job, job.machine.linkers[linker.name], memory) if linker.script else None
    words = linker.arguments(order.arguments if order else job.arguments, settings.page_size, pad_path, script)
    words = [*(order.before if order else ()), *words, *linker.base(job.command, settings.page_size, job.machine)]
    if order and linker.declared:
        from hugealign.elf.objectfile import declaring_object
        from hugealign.link.order import copies

        data = declaring_object(job.machine, copies.names(), flags, stack_note=recipe.stack_note)
        words = [memory.file("names.o", data, "hugealign's names.o"), *words]
    if order and linker.order_script:
        words = ["-T", _script(job, linker.order_script, memory), *words]
    words += linker.default_script(job.command)
    run = running.spawn([job.real, *words], True, meanwhile)
    if not job.command.reports and b"/proc/self/fd/" not in run.stdout + run.stderr:
        return run
    from hugealign.link import reports

    names = memory.names | (order.copies.made if order and order.copies else {})
    for path, dependencies in job.command.reports:
        reports.rename_in(reports.place(path, job.command.output), names, dependencies)
    return run.changed(stdout=reports.renamed(run.stdout, names), stderr=reports.renamed(run.stderr, names))


def _script(job: "Job", name: str, memory: MemoryFiles) -> str:
    """Return the path of the script *name* with the requested pad threshold.

    It leaves out our statements for sections that the user's scripts request: our script comes first, and the first
    statement that matches a section takes it.
    """
    from hugealign.io.resources import directory

    path = os.path.join(directory("ld-scripts"), name)
    users = job.command.requested_sections()
    if job.settings.pad_threshold == linkers.SCRIPT_THRESHOLD and not users:
        return path
    with open(path, "rb") as file:
        lines = [line for line in file if not (users and (taken := _taken(line)) and users(taken))]
    default, requested = (b"> %d ?" % size for size in (linkers.SCRIPT_THRESHOLD, job.settings.pad_threshold))
    return memory.file(name, b"".join(lines).replace(default, requested), path)


def _taken(line: bytes) -> bytes:
    """Return the input section that a *line* of our scripts takes in a statement of its own, empty if it takes none."""
    return line.partition(b" : { *(")[2].partition(b")")[0]


def _missing_pads(job: "Job", recipe: Recipe, image: "Image", padded: int) -> tuple[int, int] | None:
    """Return the sizes of the pads behind the text and in front of it that another link needs; None if it needs none.

    The text has a pad of *padded* bytes.
    """
    if recipe.linker.lead_section:
        from hugealign.link.packed_segments import pads

        return pads(image, job.settings.page_size, job.settings.pad_threshold, recipe.linker.lead_section, padded)
    size = _missing_pad(job, image) if recipe.linker.two_pass else 0
    return (size, 1) if size else None


def _missing_pad(job: "Job", image: "Image") -> int:
    """Return the bytes of padding that a second link needs.

    They are a multiple of the largest alignment behind the pad, so everything behind it moves by exactly that much.
    """
    from hugealign.elf.coverage import pad_range

    if len(image.text_segments) != 1:
        return 0
    page_size, segment = job.settings.page_size, image.text_segments[0]
    tail = segment.p_memsz % page_size
    if tail <= job.settings.pad_threshold:
        return 0
    start, end = pad_range(image, segment)[1], segment.p_vaddr + segment.p_memsz
    behind = (s for s in image.sections if s.sh_size and start <= s.sh_addr < end)
    step = max([64, *(s.sh_addralign for s in behind)])
    return (page_size - tail) // step * step


def _grow_text(job: "Job", image: "Image") -> str | None:
    """Grow the text of the output to the end of its last window.

    Return an empty string if it did, the reason if it cannot, or None if there is nothing to do.
    """
    from hugealign.elf import edit

    page_size, segments = job.settings.page_size, image.text_segments
    if len(segments) != 1 or segments[0].p_memsz % page_size <= job.settings.pad_threshold:
        return None
    plan = edit.plan_tail(image, page_size)
    if isinstance(plan, str):
        return plan
    with using(os.open(job.command.output, os.O_RDWR | os.O_CLOEXEC)) as fd:
        edit.apply(fd, plan)
    return ""


def load_checks() -> None:
    """Load the modules needed after the linker is done."""
    import hugealign.elf.edit
    import hugealign.elf.guards
    import hugealign.link.check
    import hugealign.verification.rules  # noqa: F401
