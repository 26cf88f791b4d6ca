"""Check that the output of a laid-out link has the layout, and every guard of the plain link."""

from hugealign.elf.guards import Guards
from hugealign.elf.image import Image
from hugealign.elf.relocatable import UNREADABLE, opened, section_names
from hugealign.io import ar
from hugealign.link.command import Command
from hugealign.link.linkers import Linker
from hugealign.settings import Settings

_STACK_NOTE = b".note.GNU-stack\0"
#: Sections that every linker puts under RELRO (``DATA_SEGMENT_RELRO_END`` in GNU ld's default script).
_RELRO = (".dynamic", ".data.rel.ro", ".init_array", ".got")
#: Warnings: gold's plain links have as much data among the text.
_LEFT_TO_VERIFY = ("HA009", "HA027")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.diagnosis.values import Diagnosis


def doubtful(guards: "Guards", image: "Image", command: "Command") -> bool:
    """Return whether the output lacks a guard that the plain link might have, so only a plain link can tell.

    Guards that our additions cannot change do not count, since a plain link costs as much as ours.  The pad decides
    about the stack only if no other input has a ``.note.GNU-stack`` (``bfd_elf_size_dynamic_sections`` in
    bfd/elflink.c): an older GNU ld then makes the stack executable for inputs without the note, a GNU ld configured
    with ``--disable-default-execstack`` for none.
    """
    if guards.writable_text or guards.grown_text:
        return True
    if not {"execstack", "noexecstack"}.intersection(command.z) and not _says_of_the_stack(command):
        return True
    if not guards.relro and "norelro" not in command.z and any(s.name in _RELRO for s in image.sections):
        return True
    return "now" in command.z and not guards.bind_now and any(s.name == ".dynamic" for s in image.sections)


def _says_of_the_stack(command: "Command") -> bool:
    """Return whether an object among the inputs has a ``.note.GNU-stack``; archive members may not be linked."""
    for _, fd in opened(command.inputs):
        try:
            whole = next(ar.members(fd))
            if not whole[0] and _STACK_NOTE in (section_names(fd, *whole[1:]) or b""):
                return True
        except (*UNREADABLE, StopIteration):
            continue
    return False


def broken(image: "Image") -> str:
    """Return why the linked program would not start, or would lack memory; empty if nothing says so."""
    from hugealign.verification import rules

    return next((_worded(diagnosis) for diagnosis in rules.startable(image)), "")


def lacks_windows(path: str, settings: Settings) -> bool:
    """Return whether the file at *path* is a program or library with text that is worth windows, and lacks them."""
    from hugealign.elf.coverage import coverage
    from hugealign.elf.image import read_image
    from hugealign.errors import HugealignError
    from hugealign.io.descriptors import file_at
    from hugealign.verification import rules

    try:
        with file_at(path) as fd:
            image = read_image(fd)
    except (OSError, HugealignError):
        return False
    policy = rules.Policy(settings.page_size, settings.min_text).of(image)
    if coverage(image, policy.page_size).text < policy.min_text:
        return False
    return any(diagnosis.code not in _LEFT_TO_VERIFY for diagnosis in rules.check(image, policy))


def failure(path: str, settings: Settings) -> str:
    """Return why `hugealign verify` fails the file at *path*; empty if it does not, or the file is not a program."""
    from hugealign.diagnosis import render
    from hugealign.diagnosis.catalogue import ERROR, row
    from hugealign.io.descriptors import file_at
    from hugealign.verification import rules
    from hugealign.verification.checking import check_fd
    from hugealign.verification.result import FAILED

    with file_at(path) as fd:
        report = check_fd(fd, path, rules.Policy(settings.page_size, settings.min_text))
    if report.verdict != FAILED:
        return ""
    errors = [diagnosis for diagnosis in report.diagnoses if row(diagnosis.code).severity == ERROR]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{_worded(errors[0], more)}; {render.what_helps(errors[0])}"


def shortfall(image: "Image", linker: "Linker", settings: "Settings") -> str:
    """Return what keeps the text of *image* from whole windows, and what helps; empty if nothing does."""
    from hugealign.verification import rules

    if settings.check == "off":
        return ""
    policy = rules.Policy(settings.page_size, settings.min_text)
    diagnoses = [diagnosis for diagnosis in rules.check(image, policy) if diagnosis.code not in _LEFT_TO_VERIFY]
    if not diagnoses:
        return ""
    from hugealign.diagnosis import render
    from hugealign.diagnosis.values import Remedy

    first = diagnoses[0]
    if not linker.script:
        first = first.changed(remedy=Remedy("other-linker"))
    elif first.code in rules.PLACEMENT:  # whose advice is another link with hugealign, which this was
        first = first.changed(remedy=Remedy("look", ("hugealign", "explain", first.code)))
    more = f" (and {len(diagnoses) - 1} more)" if len(diagnoses) > 1 else ""
    return f"{_worded(first, more)}; {render.what_helps(first)}"


def _worded(diagnosis: "Diagnosis", more: str = "") -> str:
    from hugealign.diagnosis.render import sentence  # takes longer than the check, and is rarely needed

    return f"{sentence(diagnosis)}{more} [{diagnosis.code}]"
