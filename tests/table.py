"""Write docs/measured/links.md: every link situation that the tests try, by linker, from runs of the tests.

``make docs`` runs it over the JUnit file of the short tests and, where there is one, that of ``make test-links``.  A
cell is the number of cases that passed, and for those skipped the number of the reason below the table.  Tables of
which a run has no case stay as they are in the document.
"""

import json
import re
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hugealign.elf.machines import MACHINES
from tests import sections
from tests.link.newer import CARGO, SUITES, TARGET
from tests.support import made_here

#: The files of tests/link, all of them, with their headings.
FILES = {
    "test_layout": "Outputs of every kind, x86-64",
    "test_aarch64": "aarch64, cross-compiled, run under qemu-user",
    "test_page_sizes": "Other sizes of huge page",
    "test_lto": "Link-time optimisation",
    "test_processors": "Other processors, cross-compiled, run under qemu-user",
    "test_processors_corpus": "The corpus on other processors",
    "test_situations": "Unusual links",
    "test_as_the_plain_link": "What the plain link does, in the same way",
    "test_sections_of_code": "Code in sections of its own",
    "test_tools_after": "Tools after the link",
    "test_package": "A Debian package",
    "test_bolt": "BOLT after the link",
    "test_order": "In the order of a profile",
    "test_fix": "Finished files, fixed",
    "test_fix_default": "What fix chooses by itself",
    "test_fix_readers": "Readers of fixed files",
    "test_separate": "Finished files, separated by fix",
    "test_separate_debug": "Debug information of separated files",
    "test_separate_tools": "Tools on separated files",
    "test_referee": "The referee of separated files",
    "test_crossings": "References across the break of a separated file",
    "test_fix_debuggers": "Debuggers and profilers on fixed files",
    "test_keeping_out": "Links that are left alone, options that keep their meaning",
    "test_outputs": "Outputs and faults",
    "test_left_alone": "What is left alone says so; what `verify` fails; compilers that are their own linker",
    "test_once": "Pipes as inputs",
    "test_faults": "Errors of the user, the linker and hugealign",
    "test_refused_calls": "System calls that are refused",
    "test_started": "Large links, which are started early",
    "test_small": "Small programs and limits",
    "test_examine": "The rules of verify, on linked files",
    "test_kernels_of_linked_files": "What kernels make of linked files",
    "test_guards": "What guards a program: stack, RELRO, late binding, control flow",
    "test_closed_descriptors": "With stdin, stdout or stderr closed",
    "test_programs_in_front": "Programs in front of the compiler, linkers by their path, a quoted CC",
    "test_launcher": "The launcher",
    "test_next_linker": "Which linker runs",
    "test_same_linker": "However a driver finds its linker",
    "test_corpus": "The corpus, by kind of program",
    "test_newer": "Newer linkers, x86-64",
    "test_newer_aarch64": "Newer linkers, aarch64",
    # Cases with that linker have tables of their own: it comes from another source than the others.
    "test_newer: wild": "wild, x86-64",
    "test_newer_aarch64: wild": "wild, aarch64",
}
NOTES = {
    "test_bolt": "BOLT leaves the old text where it was, unused, and puts its own into a segment of its own behind "
    "everything\nelse. That begins on a window, hot code first, so the hot code is on huge pages if the text is large; "
    "but it is not\npadded: `verify` finds the second segment and its tail. `-align-text` and `-hugify` change nothing "
    "about that;\n`-no-huge-pages` loses the hot code too: leave it out. What `verify` says:",
    "test_newer": "Each suite's linkers, with the options, programs and gcc of this system:",
    "test_newer: wild": "As cargo builds it, with the options, programs and gcc of this system:",
}
INSTALLED = ("bfd", "lld14", "lld19", "mold", "gold")
#: In a case of another processor than x86-64 and aarch64: which, and the linker.
_PROCESSOR = re.compile(f"({'|'.join([m.name for m in MACHINES.values()][2:])})-(bfd|lld|mold|wild)")
NEWER = (*(f"{linker} {suite}" for suite in SUITES for linker in ("bfd", "lld", "mold", "gold")), f"wild {CARGO}")


@dataclass(frozen=True, slots=True)
class Case:
    """One test case of a run: its file, its row, its linker; what it recorded; why it was skipped."""

    file: str
    situation: str
    linker: str
    seen: str | None
    skipped: str | None


def linker_of(case: str) -> str:
    """Return which linker the case *case* is about, judged by its parameters; GNU ld where they name none."""
    if match := re.search(rf"(bfd|lld|mold|gold|wild)-({'|'.join((*SUITES, CARGO))})", case):
        return f"{match[1]} {match[2]}"
    if match := _PROCESSOR.search(case):
        return match[2]
    for linker in ("lld14", "lld19", "mold", "gold", "bfd"):
        if linker in case:
            return linker
    for compiler, linker in (("clang14", "lld14"), ("clang19", "lld19")):
        if compiler in case:
            return linker
    return "bfd"


def situation_of(name: str, parameters: str) -> str:
    """Return the row that a case belongs to: the test's name, and its parameters but for compiler and linker.

    The programs of the corpus are one row for each kind, that is, for each of its directories.
    """
    title = name.removeprefix("test_").replace("_", " ")
    if match := re.match(r"([a-z]+)/\w+-", parameters):
        return f"{title}: {match[1]}"
    parameters = _PROCESSOR.sub(r"\1", parameters)
    rest = re.sub(
        rf"(gcc|clang\d*|musl)-(bfd|gold|lld\d*|mold|wild)(-({'|'.join((*SUITES, CARGO))}))?", "", parameters
    ).strip("-")
    return f"{title}: `{rest}`" if rest else title


def cases(junit: Path) -> Iterator[Case]:
    """Yield the link tests of a run.  Raises ValueError if a case failed: there is nothing to publish then."""
    for case in ET.parse(junit).getroot().iter("testcase"):  # noqa: S314
        package, _, file = case.attrib["classname"].rpartition(".")
        if package != "tests.link":
            continue
        if file not in FILES:
            raise ValueError(f"no heading for {file}")
        if case.find("failure") is not None or case.find("error") is not None:
            raise ValueError(f"failed: {file}: {case.attrib['name']}")
        name, _, parameters = case.attrib["name"].partition("[")
        parameters = parameters.removesuffix("]")
        skipped = case.find("skipped")
        reason = None if skipped is None else re.sub(r"/tmp/\S+|\(/.*", "…", skipped.attrib["message"])
        properties = {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}
        linker = linker_of(parameters)
        file = f"{file}: wild" if linker.startswith("wild ") else file
        yield Case(file, situation_of(name, parameters), linker, properties.get("seen"), reason)


def tables(run: list[Case]) -> dict[str, str]:
    """Return the tables of *run* by heading, as Markdown, each with the reasons of what it skipped."""
    result = {}
    for file, title in FILES.items():
        rows: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        seen = []
        reasons: dict[str, int] = {}
        for case in run:
            if case.file == file:
                number = reasons.setdefault(case.skipped, len(reasons) + 1) if case.skipped else None
                rows[case.situation][case.linker].append(f"[{number}]" if number else "ok")
                seen += [f"- {case.situation.partition(': ')[2]}, {case.linker}: {case.seen}"] if case.seen else []
        if not rows:
            continue
        used = {linker for cells in rows.values() for linker in cells}
        columns = [linker for linker in (*INSTALLED, "lld", "wild", *NEWER) if linker in used]
        parts = []
        if file in NOTES:
            parts += [NOTES[file], "", *(seen or versions((CARGO,) if "wild" in file else SUITES)), ""]
        parts.append(f"| situation | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
        for situation, cells in rows.items():
            parts.append(f"| {situation} | {' | '.join(cell(cells[linker]) for linker in columns)} |")
        parts += ["", *(f"- [{number}] {reason}" for reason, number in reasons.items())] if reasons else []
        result[title] = "\n".join(parts) + "\n"
    return result


def passed(table: str) -> int:
    """Return how many cases passed by the cells of *table*."""
    cells = (cell for line in table.splitlines() if line.startswith("|") for cell in line.split("|")[2:])
    return sum(int(match[1] or 1) for cell in cells if (match := re.match(r" (?:(\d+) )?ok\b", cell)))


def versions(suites: Sequence[str]) -> list[str]:
    """Return what the newer linkers of *suites* call themselves."""
    lines = []
    for suite in suites:
        result = TARGET / suite / "versions.json"
        names = json.loads(result.read_text()) if result.exists() else {}
        lines += [f"- {suite}: {', '.join(v for name, v in names.items() if name.startswith('bin/'))}"] if names else []
    return lines


def cell(marks: list[str]) -> str:
    """Return ``ok``, ``3 ok``, reasons, or ``--`` where a situation is not about a linker."""
    passed = marks.count("ok")
    others = sorted(set(marks) - {"ok"}, key=lambda mark: int(mark.strip("[]")))
    shown = ([f"{passed} ok" if passed > 1 else "ok"] if passed else []) + others
    return " ".join(shown) or "--"


_FOLDED = re.compile(r"<details><summary>[^\n]*</summary>\n\n(.*)\n</details>\n", re.DOTALL)


def folded(table: str) -> str:
    """Return *table* behind a line that a reader opens, with how many of its cases passed."""
    return f"<details><summary>{passed(table):,} cases passed</summary>\n\n{table}\n</details>\n"


_HEAD = """\
# Links that are tested

All {n} cases that ran passed; each table has the reasons of those that were skipped.

`ok`: the program runs like the plain link and its text is in whole windows, or the link is unchanged where that is the
promise. `--`: not tried with that linker. A number in brackets: skipped.

Written by `make docs` from a run of the tests, and from one of `make test-links` if there is one; not by hand ({made}).
Each table shows the last run that included its tests.
"""


def main() -> None:
    """Turn the JUnit files, all arguments but the first, into the document that the first one names."""
    target, *runs = map(Path, sys.argv[1:])
    old = sections.split(target.read_text()) if target.exists() else {}
    old = {title: _FOLDED.sub(r"\1", text) for title, text in old.items()}
    result = old | tables([case for junit in runs for case in cases(junit)])
    shown = {title: result[title] for title in FILES.values() if title in result}
    head = _HEAD.format(made=made_here(), n=f"{sum(map(passed, shown.values())):,}")
    target.write_text("\n".join((head, *(f"## {title}\n\n{folded(text)}" for title, text in shown.items()))))


if __name__ == "__main__":
    main()
