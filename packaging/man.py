"""``make install``, first half: the manual pages in share/man, from the command line's own parsers.

A page's options, usage and texts are those of ``--help``; what help has no room for is written here: the description of
hugealign(1), its files, and the configuration of verify.  argparse-manpage prints an epilog as one paragraph, without
sections, and an installation must not require Sphinx.  Needs the standard library alone.
"""

import argparse
import itertools
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from hugealign import cli, settings
from hugealign.errors import STATUSES
from hugealign.verification import configuration
from hugealign.version import __version__

ROOT = sys.path[-1]
DATE = "2026-11-23"  # of these texts: a page is the same bytes whenever it is made
_WIDTH = 62  # mandoc's lint wants lines below 80 bytes, escapes included

_DESCRIPTION = """\
A processor finds the code of a large program through its instruction TLB, which reaches far further with 2 MiB pages
than with 4 KiB ones. Linux maps the text of a file with such pages only if whole, aligned 2 MiB windows of it lie
inside the executable segment, and if the page cache holds them in one piece.

hugealign sees to both. As one word in front of the compiler it lays out each link for it. Its commands check files,
prepare finished binaries, bring their text into memory in huge pages, put the hot functions of a profile first, and
show what the kernel has mapped.

"hugealign help COMMAND" prints the options of a command; hugealign-COMMAND(1) is its manual.
"""
_COMPILER = """\
Words in front of the compiler change this one link: --page-size=SIZE as HUGEALIGN_PAGE_SIZE does, --profile=FILE as
HUGEALIGN_PROFILE does. If the compiler of a build cannot be changed, hugealign-build(1) runs the build. If our
additions make a link fail, or if the output would lack a protection that the plain link has, the link is done again
without them, and one line on standard error says so.
"""
_FILES = (
    ("hugealign.toml, pyproject.toml", "the configuration of hugealign-verify(1), which lists its keys"),
    ("/run/hugealign", "the store of hugealign-stage(1)"),
    (
        "/var/lib/hugealign/journal, ~/.local/state/hugealign/journal",
        "the files that were fixed or replaced, for hugealign-status(1)",
    ),
    (
        "~/.cache/hugealign",
        "what is made on demand: the LLVM plugin, the C of order and trace, an order's blocks (blocks-*.list)",
    ),
)
_CONFIGURATION = """\
verify takes options from hugealign.toml, or from [tool.hugealign] in pyproject.toml. The nearest file counts, from the
current directory upward. An option on the command line overrides it.

The keys of the table verify are long options: {keys}. Each table in exceptions accepts findings in some files, and says
why. A pattern without a slash also matches the last part of a name.
"""
_CONFIGURED = """\
[verify]                  # pyproject.toml: [tool.hugealign.verify]
fail-on = "warning"
allow-empty = true

[[verify.exceptions]]
files = ["libvendor*.so", "usr/lib/driver/*"]
ignore = ["HA001", "HA003", "HA004"]
reason = "the vendor links them"
"""


def escape(text: str) -> str:
    """Return *text* for roff: no escape, no ligature, no request."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti")
    return f"\\&{text}" if text.startswith(".") else text


def filled(text: str) -> list[str]:
    """Return a paragraph in lines that are short enough; roff fills them again."""
    words = " ".join(text.split())
    return [escape(line) for line in textwrap.wrap(words, _WIDTH, break_long_words=False, break_on_hyphens=False)]


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of *text*."""
    return [line for block in text.split("\n\n") for line in (".PP", *filled(block))][1:]


def broken(lines: Iterable[str]) -> list[str]:
    """Return *lines*, each of which begins a new one."""
    return [part for line in lines for part in (".br", *filled(line))][1:]


def terms(rows: Iterable[tuple[str, str]], font: str = "B") -> list[str]:
    """Return what the first of each pair in *rows* means, which the second says."""
    return [line for name, what in rows for line in (".TP", f".{font} {escape(name)}", *filled(sentence(what)))]


def literal(lines: list[str]) -> list[str]:
    """Return *lines* as they are, indented."""
    return [".RS 4", ".nf", *(escape(line) for line in lines), ".fi", ".RE"]


def blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the paragraphs of an epilog, each with the title of its section, empty for the description.

    A section is a line that ends with a colon, with indented lines below it.
    """
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        head, *lines = block.splitlines()
        if head.endswith(":") and lines and all(line.startswith("  ") for line in lines):
            yield head[:-1].partition(",")[0].upper(), lines
        else:
            yield "", [head, *lines]


def paragraph(lines: list[str]) -> list[str]:
    """Return a paragraph: what is indented or a table as it is, else filled."""
    if lines[0].startswith(" ") or re.search(r"[^.\s:]\s{2,}\S", lines[0]):
        return literal(textwrap.dedent("\n".join(lines)).splitlines())
    out: list[str] = []
    for indented, group in itertools.groupby(lines, lambda line: line.startswith("  ")):
        part = [line.strip() for line in group]
        out += literal(part) if indented else filled(" ".join(part))
    return out


def sentence(text: str) -> str:
    """Return the help of an option as a sentence begins."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?')) else '.'}"


def options(parser: argparse.ArgumentParser) -> list[str]:
    """Return the arguments and options of *parser*, group by group."""
    out: list[str] = []
    for group in parser._action_groups:  # noqa: SLF001 - argparse has no other way to them
        actions = [action for action in group._group_actions if action.help is not argparse.SUPPRESS]  # noqa: SLF001
        if not actions:
            continue
        if group.title not in ("options", "positional arguments"):
            out.append(f".SS {escape(sentence(group.title or '').rstrip('.'))}")
        for action in actions:
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
                for name, sub in action.choices.items():
                    out += [*terms([(name, helped(action, name))]), *nested(sub)]
                continue
            value = value_of(action)
            if action.option_strings:
                names = [f"\\fB{escape(name)}\\fR" for name in action.option_strings]
                tag = ", ".join(names) + (f" {value}" if value else "")
            else:
                tag = f"\\fI{escape(str(action.metavar or action.dest))}\\fR"
            out += [".TP", tag, *filled(sentence(expanded(parser, action)))]
    return out


def helped(action: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str) -> str:
    """Return the one line that stands beside the command *name*."""
    return next((each.help or "" for each in action._choices_actions if each.dest == name), "")  # noqa: SLF001


def expanded(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Return the help of *action* with its default in it."""
    if not action.help:
        return "the format of the report"
    return str(parser._get_formatter()._expand_help(action))  # noqa: SLF001


def nested(parser: argparse.ArgumentParser) -> list[str]:
    """Return the options of an action of a command, indented."""
    result = options(parser)
    return [".RS", *result[3:], ".RE"] if len(result) > 3 else []  # without its --help


def value_of(action: argparse.Action) -> str:
    """Return how the value of an option is shown."""
    if action.nargs == 0:
        return ""
    if action.choices:
        return escape("|".join(map(str, action.choices)))
    return f"\\fI{escape(str(action.metavar or action.dest.upper()))}\\fR"


def usage(parser: argparse.ArgumentParser) -> list[str]:
    """Return the synopsis."""
    text = parser.format_usage().removeprefix("usage: ")
    # Not a blank in the lookahead either: the pattern would give one back, and then every line follows the last.
    text = re.sub(r"\n +(?! |hugealign)", " ", text).strip()
    return [".nh", *broken(text.splitlines()), ".hy"]


def page(name: str, section: int, summary: str, body: list[str]) -> str:
    """Return a whole page."""
    head = [
        '.\\" Written by packaging/man.py.',
        f'.TH {escape(name.upper())} {section} {DATE} "hugealign {__version__}" "hugealign manual"',
        ".SH NAME",
        *(line.replace("\\-\\-", "\\-") for line in filled(f"{name} -- {summary}")),
    ]
    return "\n".join([*head, *body]) + "\n"


def command_page(name: str) -> str:
    """Return the page of a command."""
    parser = cli.command_parser(name)
    body = [".SH SYNOPSIS", *usage(parser)]
    sections: dict[str, list[str]] = {"DESCRIPTION": filled(parser.description or "")}
    for section, lines in blocks(parser.epilog or ""):
        into = sections.setdefault(section or "DESCRIPTION", [])
        into += [".PP"] if into else []
        into += paragraph(lines)
    body += [".SH DESCRIPTION", *sections.pop("DESCRIPTION"), ".SH OPTIONS", *options(parser)]
    if name == "verify":
        body += [".SH CONFIGURATION", *configuration_section()]
    for title, lines in sections.items():
        body += [f".SH {title}", *lines]
    return page(f"hugealign-{name}", 1, cli.COMMANDS[name], [*body, ".SH SEE ALSO", *see_also(name)])


def configuration_section() -> list[str]:
    """Return what the configuration of `verify` may hold."""
    keys = ", ".join(key for key in configuration.KEYS if key != "exceptions")
    return [*paragraphs(_CONFIGURATION.format(keys=keys)), ".PP", *literal(_CONFIGURED.splitlines())]


def see_also(name: str) -> list[str]:
    """Return the pages beside this one."""
    others = {"order": ("perf-record(1)",)}.get(name, ())
    return [", ".join(f"\\fB{escape(page.partition('(')[0])}\\fR({page[-2]})" for page in ("hugealign(1)", *others))]


def main_page() -> str:
    """Return hugealign(1)."""
    usages = (
        "hugealign COMMAND [ARGUMENT ...]",
        "hugealign [--page-size=SIZE] [--profile=FILE] COMPILER [ARGUMENT ...]",
        "hugealign-gcc|-g++|-clang|-clang++|-cc|-c++ [ARGUMENT ...]",
    )
    body = [".SH SYNOPSIS", ".nh", *broken(usages), ".hy", ".SH DESCRIPTION", *paragraphs(_DESCRIPTION), ".SH COMMANDS"]
    for name, summary in cli.COMMANDS.items():
        body += [".TP", f"\\fBhugealign\\-{escape(name)}\\fR(1)", *filled(sentence(summary))]
    body += [".SH AS A COMPILER", *filled(_COMPILER), ".SH ENVIRONMENT"]
    body += filled("Booleans are 0 or 1; sizes take K, M and G; empty variables are treated as unset.")
    for name, (kind, _, example, what) in settings.VARIABLES.items():
        default = f" The default is {example}." if kind in (settings.SIZE, settings.PAGE_SIZE_KIND) else ""
        body += terms([(f"{name}={example}", sentence(what) + default)])
    body += [".SH FILES", *terms(_FILES, "I")]
    body += [".SH EXIT STATUS", *filled("As a compiler: the compiler's own, or 125 to 127.")]
    body += terms((str(status), what) for status, what in STATUSES.items())
    body += [".SH EXAMPLES", *literal(_EXAMPLES.splitlines()), ".SH SEE ALSO"]
    body += ["\\fBld\\fR(1), \\fBperf\\-record\\fR(1), \\fBmadvise\\fR(2)"]
    return page("hugealign", 1, "put a program's text on huge pages, and show it", body)


_EXAMPLES = """\
./configure CC=hugealign-gcc CXX=hugealign-g++ && make
hugealign verify ./server
hugealign run -- ./server
hugealign ps -v server
"""


def write(directory: str) -> None:
    """Write every page to *directory*, anew, and give each launcher hugealign(1) as its page."""
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    for name, text in {"hugealign": main_page(), **{f"hugealign-{c}": command_page(c) for c in cli.COMMANDS}}.items():
        with open(os.path.join(directory, f"{name}.1"), "w", encoding="utf-8") as file:
            file.write(text)
    for name in os.listdir(os.path.join(ROOT, "bin")):
        if name != "hugealign" and " " not in name:
            os.symlink("hugealign.1", os.path.join(directory, f"{name}.1"))


if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"  # argparse wraps the usage by it
    write(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "share", "man", "man1"))
