"""An order file of hugealign as a profile: its functions, with their samples."""

from collections.abc import Iterable

from hugealign import orderfile
from hugealign.profile.model import Malformed, Profile, ProfileError, count_of


def read(lines: Iterable[bytes], profile: Profile) -> None:
    """Add the functions in *lines* to *profile*; fillers were never touched."""
    try:
        order = orderfile.parse(b"\n".join(_charged(lines, profile)))
    except orderfile.OrderFileError as error:
        raise ProfileError(str(error)) from None
    for number, entry in enumerate(order.entries, 1):
        if entry.kind != orderfile.FILL and entry.name:
            try:
                name, file = (word.encode("utf-8", "surrogateescape") for word in (entry.name, entry.file))
                profile.add(profile.place(name, file), count_of(b"%d" % entry.samples))
                profile.good += 1
            except (Malformed, UnicodeEncodeError):
                profile.malformed(number)


def _charged(lines: Iterable[bytes], profile: Profile) -> list[bytes]:
    kept = []
    for line in lines:
        profile.room.take(len(line))
        kept.append(line)
    return kept
