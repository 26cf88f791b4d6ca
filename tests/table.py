"""Write docs/links.md: every link situation that the tests try, by linker, from a run of the tests.

Run by ``make docs``: pytest writes its JUnit file, this turns it into tables.  A cell is the number of cases that
passed, and for those skipped the number of the reason below the tables.
"""

import re
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path

FILES = {
    "test_layout": "Outputs of every kind, x86-64",
    "test_aarch64": "aarch64, cross-compiled, run under qemu-user",
    "test_page_sizes": "Other sizes of huge page",
    "test_lto": "Link-time optimisation",
    "test_situations": "The stranger links",
    "test_tools_after": "Tools after the link",
    "test_outputs": "Outputs and faults",
    "test_small": "Small programs and limits",
}
LINKERS = ("bfd", "lld14", "lld19", "mold", "gold")


def linker_of(case: str) -> str:
    """Return which linker the case *case* is about, judged by its parameters; GNU ld where they name none."""
    for linker in ("lld14", "lld19", "mold", "gold", "bfd"):
        if linker in case:
            return linker
    for compiler, linker in (("clang14", "lld14"), ("clang19", "lld19")):
        if compiler in case:
            return linker
    return "bfd"


def situation_of(name: str, parameters: str) -> str:
    """Return the row that a case belongs to: the test's name, and its parameters but for compiler and linker."""
    rest = re.sub(r"(gcc|clang\d*|musl)-(bfd|gold|lld\d+|mold)", "", parameters).strip("-")
    title = name.removeprefix("test_").replace("_", " ")
    return f"{title}: `{rest}`" if rest else title


def tables(junit: Path) -> str:
    """Return the tables as Markdown.  Raises ValueError if a case failed: there is nothing to publish then."""
    rows: dict[str, dict[str, dict[str, list[str]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    reasons: dict[str, int] = {}
    for case in ET.parse(junit).getroot().iter("testcase"):  # noqa: S314
        file = case.attrib["classname"].rpartition(".")[2]
        if file not in FILES:
            continue
        if case.find("failure") is not None or case.find("error") is not None:
            raise ValueError(f"failed: {case.attrib['name']}")
        name, _, parameters = case.attrib["name"].partition("[")
        parameters = parameters.removesuffix("]")
        skipped = case.find("skipped")
        mark = "ok"
        if skipped is not None:
            reason = re.sub(r"/tmp/\S+|\(/.*", "…", skipped.attrib["message"])
            mark = f"[{reasons.setdefault(reason, len(reasons) + 1)}]"
        rows[file][situation_of(name, parameters)][linker_of(parameters)].append(mark)
    parts = []
    for file, title in FILES.items():
        parts.append(f"## {title}\n\n| situation | {' | '.join(LINKERS)} |\n|---|{'---|' * len(LINKERS)}")
        for situation, cells in rows[file].items():
            parts.append(f"| {situation} | {' | '.join(cell(cells[linker]) for linker in LINKERS)} |")
        parts.append("")
    parts.append("## Reasons\n")
    parts += [f"- [{number}] {reason}" for reason, number in reasons.items()]
    return "\n".join(parts) + "\n"


def cell(marks: list[str]) -> str:
    """Return ``ok``, ``3 ok``, reasons, or ``--`` where a situation is not about a linker."""
    passed = marks.count("ok")
    others = sorted(set(marks) - {"ok"})
    shown = ([f"{passed} ok" if passed > 1 else "ok"] if passed else []) + others
    return " ".join(shown) or "--"


def main() -> None:
    """Turn the JUnit file named first into the document named second."""
    junit, target = map(Path, sys.argv[1:])
    head = (
        "# Links that are tested\n\nWritten by `make docs` from a run of the tests; not by hand. `ok`: the program "
        "runs as without hugealign and its\ntext is whole windows, or the link is left alone where that is "
        "the promise. `--`: not tried with that linker.\n\n"
    )
    target.write_text(head + tables(junit))


if __name__ == "__main__":
    main()
