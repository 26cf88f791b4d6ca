"""What the command lines of several commands share."""

import argparse

from hugealign.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class SplitParser(argparse.ArgumentParser):
    """Keeps the words after ``--`` out of the parsing: they become ``namespace.after``, None if there is no ``--``."""

    def parse_known_args(self, args: "Any" = None, namespace: "Any" = None) -> "Any":
        """Parse what stands before ``--``."""
        words = list(args)
        end = words.index("--") if "--" in words else len(words)
        for word in words[:end]:
            if word[:1] == "-" and word[2:].endswith("--"):
                # Before Python 3.13 argparse would take it for the end of the options, and give an empty list.
                self.error(f"{printable(word)}: -- is no value of an option")
        namespace, rest = super().parse_known_args(words[:end], namespace)
        namespace.after = words[end + 1 :] if end < len(words) else None
        return namespace, rest


def split_at_dashes(parser: argparse.ArgumentParser) -> None:
    """Make *parser*, which exists already, a SplitParser."""
    parser.__class__ = SplitParser
