"""The command that stands behind the options of ours."""

from hugealign.errors import UsageError


def command_words(words: list[str], example: str) -> list[str]:
    """Return the command in *words*, which ``--`` may lead.  Raises UsageError with the *example* if there is none."""
    words = words[1:] if words[:1] == ["--"] else words
    if not words:
        raise UsageError(f"{example.split()[1]}: no command; example: {example}")
    return words
