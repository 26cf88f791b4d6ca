"""The command that follows the options of hugealign."""

from hugealign.errors import UsageError


def command_words(words: list[str], example: str) -> list[str]:
    """Return the command in *words*, after an optional ``--``.  Raises UsageError with the *example* if it is empty."""
    words = words[1:] if words[:1] == ["--"] else words
    if not words:
        raise UsageError(f"{example.split()[1]}: no command; example: {example}")
    return words
