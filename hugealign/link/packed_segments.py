"""The sizes of the pads for a linker that packs its segments: each begins in the file where the last one ended.

Such a linker leaves no room to grow into, and no option says where the text begins.  But the data before the text may
grow: if they end on a window, the text begins there, in the file as in memory.  Pure: from the headers of a first link
to the sizes for the next.
"""

from hugealign.elf.image import SHF_ALLOC, Image
from hugealign.elf.machines import MACHINES
from hugealign.elf.windows import align_up


def pads(image: "Image", page_size: int, threshold: int, lead: str, padded: int) -> "tuple[int, int] | None":
    """Return the sizes of the pads behind the text and in front of it for the next link; None if they are right.

    *padded* names the section at the end of the text, *lead* the one before the text; each pad is the last section of
    its segment.  The smallest pad is 0, one trap; a tail of at most *threshold* bytes gets it.
    """
    old = next((s for s in image.sections if s.name == lead and s.sh_flags & SHF_ALLOC), None)
    data = next((s for s in image.rodata_segments if old and s.p_vaddr <= old.sh_addr < s.p_vaddr + s.p_memsz), None)
    if old is None or data is None or len(image.text_segments) != 1:
        return None
    text = image.text_segments[0]
    data_end, text_end = data.p_vaddr + data.p_memsz, text.p_vaddr + text.p_memsz
    if data.p_offset + data.p_filesz > text.p_offset:
        return None
    if old.sh_addr + old.sh_size != data_end:
        return None  # something else is the last
    start = align_up(data_end, page_size)
    sections = sorted(
        (s.sh_addr, s.sh_addralign, s.sh_size)
        for s in image.sections
        if s.sh_flags & SHF_ALLOC and s.sh_size and text.p_vaddr <= s.sh_addr < text_end
    )
    at = start
    for _, alignment, size in sections:
        at = align_up(at, max(alignment, 1)) + size
    least = len(MACHINES[image.e_machine].trap)
    tail = (at - max(padded, least) + least) % page_size
    needed = least + page_size - tail if tail > threshold else least
    if text.p_vaddr == start and needed == max(padded, least):
        return None
    return needed, old.sh_size + start - data_end
