"""A list of symbols, one per line, with ``#`` before comments: all count the same."""

from collections.abc import Iterable

from hugealign.profile.model import Malformed, Profile


def read(lines: Iterable[bytes], profile: Profile) -> None:
    """Add the symbols in *lines* to *profile*; of equal lines the first counts."""
    for number, line in enumerate(lines, 1):
        name = line.strip()
        if not name or name.startswith(b"#"):
            continue
        try:
            place = profile.place(name)
        except Malformed:
            profile.malformed(number)
            continue
        profile.good += 1
        if place not in profile.samples:
            profile.add(place, 1)
