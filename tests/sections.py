"""Documents in Markdown whose sections are written by different commands."""

import re


def split(document: str) -> dict[str, str]:
    """Return the sections of *document* by heading, each without it and with one newline at its end."""
    parts = (part.partition("\n\n") for part in re.split(r"^## ", document, flags=re.MULTILINE)[1:])
    return {title: text.rstrip("\n") + "\n" for title, _, text in parts}


def renewed(document: str, title: str, text: str) -> str:
    """Return *document* with *text* as its section *title*, at its end if it had none."""
    head = document.partition("\n## ")[0].rstrip("\n") + "\n"
    sections = split(document) | {title: text.rstrip("\n") + "\n"}
    return "\n".join((head, *(f"## {title}\n\n{text}" for title, text in sections.items())))
