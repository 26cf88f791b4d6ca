"""``make tables``: what sh has to know of Python's tables, regions of the scripts in hugealign/sh.

A loop of case patterns cannot take them from variables, and a link of a thousand words has no time for functions.
"""

import argparse
import os
import sys

import generated

sys.path.append(generated.ROOT)

from hugealign import settings
from hugealign.cli import COMMANDS, LABORATORY, command_parser
from hugealign.elf.machines import X86_64, page_size_of
from hugealign.link import linkers
from hugealign.link.options import EARLY, NEXT_IS_ARGUMENT, UNUSUAL, USUAL

_WIDTH = 108
#: Options that gcc or clang have as well, or that bin/hugealign reads in front of a compiler.
_COMPILERS = {"--config", "--help", "--output", "--page-size", "--profile", "--verbose", "--version"}
_FIRST = "HUGEALIGN_DISABLE"  # looked at before all others, and acted on


def regions() -> dict[str, dict[str, str]]:
    """Return for each script its generated regions by name, each whole lines without the marks around them."""
    return {
        "launch.sh": {"commands": _commands(), "variables": _variables()},
        "mistakes.sh": {"options": _options()},
        "shim.sh": {"arguments": _arguments(), "link": _link(), "settings": _settings(), "usual": _usual()},
    }


def rewritten(text: str, found: dict[str, str]) -> str:
    """Return the script *text* with its regions replaced by those *found*.  Raises ValueError if it lacks one."""
    for name, lines in found.items():
        begin, end = f"# <<< {name}: written by make tables", f"# >>> {name}"
        head, mark, rest = text.partition(begin)
        _, other, tail = rest.partition(end)
        if not mark or not other:
            raise ValueError(name)
        indent = head.rpartition("\n")[2]
        body = "".join(f"{indent}{line}\n" for line in lines.splitlines())
        text = f"{head}{begin}\n{body}{indent}{end}{tail}"
    return text


def _patterns(words: list[str], action: str) -> str:
    """Return a clause of a case for *words*, which are patterns, wrapped."""
    lines, line = [], ""
    for number, word in enumerate(words):
        piece = word + (" | " if number + 1 < len(words) else f"){action}")
        if len(line) + len(piece) > _WIDTH:
            lines.append(line + "\\")
            line = "    "
        line += piece
    return "\n".join([*lines, line])


def _commands() -> str:
    return _patterns(["''", "-h", "--help", "-V", "--version", "help", *COMMANDS, *LABORATORY], "")


def _options() -> str:
    """Return the long options of all commands, but for those that compilers have as well."""
    options: set[str] = set()
    for name in COMMANDS:
        parsers = [command_parser(name)]
        while parsers:
            for action in parsers.pop()._actions:  # noqa: SLF001 - argparse has no other way to list them
                options |= {option for option in action.option_strings if option.startswith("--")}
                if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
                    parsers += action.choices.values()
    return _patterns(sorted(options - _COMPILERS), "")


def _variables() -> str:
    lines = []
    for name, (kind, *_) in settings.VARIABLES.items():
        known = {settings.BOOLEAN: ("0", "1"), settings.MODE: settings.CHECK_MODES}.get(kind)
        if kind in (settings.SIZE, settings.PAGE_SIZE_KIND):
            lines.append(f'check_size {name} "${{{name}-}}"')
        elif known and name != _FIRST:
            wanted = "0 or 1" if kind == settings.BOOLEAN else f"one of {', '.join(known)}"
            good = " | ".join(("''", *known))
            lines.append(f"case ${{{name}-}} in {good}) ;; *) fail 125 '{name}: not {wanted}' ;; esac")
    return "\n".join(lines)


def _settings() -> str:
    """Return what joins the variables that change how a link is laid out, and the bytes that decide its way."""
    names = [n for n, (_, field, *_) in settings.VARIABLES.items() if field not in ("", "profile", "order_objects")]
    parts = ["".join(f"${{{name}-}}" for name in names[at : at + 3]) for at in range(0, len(names), 3)]
    lines = [f"settings={'$settings' if number else ''}{part}" for number, part in enumerate(parts)]
    return "\n".join([*lines, f"limit={settings.MIN_TEXT} early={EARLY}"])


def _arguments() -> str:
    return _patterns(NEXT_IS_ARGUMENT, " previous=$word && continue ;;")


def _usual() -> str:
    following = [word for word in NEXT_IS_ARGUMENT if word not in ("-L", "-T")]
    clauses = ((following, " previous=$word && continue ;;"), (UNUSUAL, " dialect= ;;"), (USUAL, " ;;"))
    return "\n".join(_patterns(words, action) for words, action in clauses)


def _link() -> str:
    """Return the command of a large link that starts before Python has loaded: that of `link/linkers.py`."""
    page_size = page_size_of(X86_64, settings.OWN)
    scripts = "$scripts/$dialect-x86_64.ld", "$scripts/pad-x86_64.o"
    commands = {
        tuple(linkers.named(name).arguments(['"$@"'], page_size, f'"{scripts[1]}"', f'"{scripts[0]}"'))
        for name in ("bfd", "lld")
    }
    (words,) = commands  # one command for both
    at = words.index(f'"{scripts[1]}"') + 1
    return f'"$real" {" ".join(words[:at])} \\\n    {" ".join(words[at:])} 2>&1'


def scripts() -> dict[str, str]:
    """Return each script by its path."""
    texts = {}
    for script, result in regions().items():
        name = f"hugealign/sh/{script}"
        with open(os.path.join(generated.ROOT, name), encoding="utf-8") as file:
            texts[name] = rewritten(file.read(), result)
    return texts


if __name__ == "__main__":
    generated.write(scripts(), "tables")
