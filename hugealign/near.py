"""What somebody who mistyped a name may have meant."""

from collections.abc import Iterable

_LONGEST = 64  # characters; a longer word is not a slip of the pen


def nearest(word: str, known: "Iterable[str]") -> str:
    """Return the one of *known* that is most like *word*, empty if none is."""
    from difflib import get_close_matches  # 3 ms: only where something was mistyped

    by_folded = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), by_folded, 1) if len(word) <= _LONGEST else []
    return by_folded[found[0]] if found else ""


def hint(word: str, known: "Iterable[str]") -> str:
    """Return ``; did you mean NAME?`` for a message, empty if nothing is near."""
    from hugealign.units import printable

    found = nearest(word, known)
    return f"; did you mean {printable(found)}?" if found else ""
