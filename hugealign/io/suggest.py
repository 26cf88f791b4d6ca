"""Suggest what a mistyped name may have meant."""

from collections.abc import Iterable

_LONGEST = 64  # characters; a longer word is not a typo


def nearest(word: str, known: "Iterable[str]") -> str:
    """Return the name in *known* that is most like *word*, empty if none is close."""
    from difflib import get_close_matches  # takes 3 ms: only for mistyped names

    by_folded = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), by_folded, 1) if len(word) <= _LONGEST else []
    return by_folded[found[0]] if found else ""


def hint(word: str, known: "Iterable[str]") -> str:
    """Return ``; did you mean NAME?`` for a message, empty if no name is close."""
    from hugealign.io.units import printable

    found = nearest(word, known)
    return f"; did you mean {printable(found)}?" if found else ""
