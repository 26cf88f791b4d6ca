"""The bytes of ``.note.hugealign``, for the link, which writes it, and for ``notes``, which reads it.

``notes`` says what they mean.  No dataclasses here: they cost a link more than the note.
"""

import struct

NAME, TYPE, VERSION, SECTION = "hugealign", 1, 1, ".note.hugealign"
PADDED, RODATA = 1, 2
#: The description without the profile id: version, flags, page_size, hot_start, hot_end, windows, functions, length.
FIXED = "IIQQQIII"
#: Where the description begins in the note, and its hot_start and hot_end.
DESCRIPTION = 24
HOT_START, HOT_END = DESCRIPTION + 16, DESCRIPTION + 24


def pack(fields: tuple[int, ...], profile: bytes, little: bool = True) -> bytes:
    """Return the whole note, header included, as the section holds it.

    *fields* are those of FIXED without the length; *profile* identifies the profile.
    """
    order = "<" if little else ">"
    desc = struct.pack(order + FIXED, *fields, len(profile)) + profile
    name = NAME.encode() + b"\0"
    header = struct.pack(order + "III", len(name), len(desc), TYPE)
    return header + b"".join(part + b"\0" * (-len(part) % 4) for part in (name, desc))
