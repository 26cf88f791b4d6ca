"""Separate one file: find its addresses, make sure that nothing reaches across the break, and compose the new file."""

from hugealign.elf.image import Image
from hugealign.fixing.output import Output
from hugealign.fixing.plan import Plan
from hugealign.fixing.separation import crossings, output, words
from hugealign.fixing.step import Step


def separated(fd: int, image: Image, plan: Plan, step: Step) -> Output:
    """Return the file that *plan*, by which addresses move by *step*, makes of the one behind *fd*.

    Raises RefusalError, MalformedElfError, OSError.
    """
    found = words.find_words(fd, image, step)
    crossings.refuse_crossings(fd, image, step.start)
    return output.separated(fd, image, plan, step, found)
