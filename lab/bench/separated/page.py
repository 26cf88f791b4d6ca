"""The page of `lab.bench.separated`: what did not come out, a summary, and all files and suites, folded."""

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hugealign.io.units import format_size

if TYPE_CHECKING:
    from lab.bench.separated.__main__ import Result

_WAYS = ("separate", "shift", "hugifyr", "hugifyr -n")


def page(files: Sequence[Sequence["Result"]], suites: Sequence[dict[str, Any]]) -> str:
    """Return the page of the results of *files*, each by every way, and of *suites*."""
    tried = [results for results in files if results[0].way]
    kernel = ".".join(platform.release().split(".")[:2])
    debian = Path("/etc/debian_version").read_text(encoding="ascii").strip()
    ran = [one for one in suites if not one["failed"]]
    ways = {way: [next(r for r in results if r.way == way) for results in tried] for way in _WAYS}
    suite_rows = "\n".join(_suite(one) for one in suites)
    file_rows = "\n".join(_row(result) for results in files for result in results)
    return f"""# fix against hugifyr

hugifyr (github.com/anadav/hugifyr at 369d59a, MIT) moves the text of finished files as `fix --level=separate` does.
Here are {len(tried)} files of Debian, PyPI and npm, and {len(ran)} test suites, before and after.

## What did not come out

{_not_right(ways, files, suites)}

## All together

{_summary(ways)}

*Covered* is text in whole windows of 2 MiB; *executable* are bytes of sections without code in executable segments that
were not there before. *Debug information*: the names and lines that llvm-symbolizer gives 300 functions, of the files
that name any.

<details><summary>How it was made</summary>

`python -m lab.bench.separated --hugifyr PROGRAM`, `--suites`, and `--write` (lab/bench/separated) on
{datetime.now(tz=UTC):%Y-%m-%d}: Debian {debian}, Linux {kernel}. hugifyr needs a libelf that knows RELR and zstd, and a
libdwarf from before 0.4: it was built by its README's commands in Debian 13, with Debian 12's libdwarf, and had each
file with and without `-n`, which leaves debug information alone. One judge for all: the program headers that were
written, as `verify` reads them; the file's own job, its status and output; and the dynamic linker, where the job is not
the same. The suites ran in a fresh Debian 12, with Debian's file and with the same after `hugealign fix --in-place`.

</details>

<details><summary>{len(suites)} test suites</summary>

| suite | file | part | results | with the fixed file |
|---|---|---|--:|---|
{suite_rows}

</details>

<details><summary>{len(files)} files</summary>

| file | by | text | windows | covered | executable | growth | loads | same job | debug information |
|---|---|--:|--:|--:|--:|--:|---|---|---|
{file_rows}

</details>
"""


def _summary(ways: dict[str, list["Result"]]) -> str:
    made = {way: [r for r in results if not r.refused] for way, results in ways.items()}
    good = {way: [r for r in results if r.same] for way, results in made.items()}
    total = sum(r.text for r in next(iter(ways.values())))
    rows = {
        "refused": [str(len(ways[way]) - len(made[way])) for way in _WAYS],
        "written, but do not load": [str(sum(not r.loads for r in made[way])) for way in _WAYS],
        "load, but do another job than before, or crash": [
            str(sum(r.loads and not r.same for r in made[way])) for way in _WAYS
        ],
        "do the same": [str(len(good[way])) for way in _WAYS],
        "of these: all text covered": [str(sum(r.covered == r.text for r in good[way])) for way in _WAYS],
        "text covered of all files' that do the same": [
            f"{100 * sum(r.covered for r in good[way]) / max(total, 1):.1f} %" for way in _WAYS
        ],
        "executable, together": [format_size(sum(r.executable for r in good[way])) for way in _WAYS],
        "growth, together": [format_size(sum(r.growth for r in good[way])) for way in _WAYS],
        "debug information right": [
            f"{sum(bool(r.named) for r in good[way])} of {sum(r.named is not None for r in good[way])}" for way in _WAYS
        ],
    }
    lines = [f"| {len(ways['separate'])} files | {' | '.join(_WAYS)} |", "|---|--:|--:|--:|--:|"]
    return "\n".join(lines + [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()])


def _not_right(
    ways: dict[str, list["Result"]], files: Sequence[Sequence["Result"]], suites: Sequence[dict[str, Any]]
) -> str:
    lines = []
    for way in ("separate", "shift"):
        wrong = [r.file for r in ways[way] if not r.refused and not r.same]
        lines.append(f"- `{way}`: {len(wrong)} files do not do the same" + (f": {', '.join(wrong)}." if wrong else "."))
    lost = [r.file for r in ways["separate"] if r.named is False]
    lines.append(
        f"- `separate`: debug information is wrong in {len(lost)} files{': ' + ', '.join(lost) if lost else ''}."
    )
    for results in files:
        refused = [r for r in results if r.way in ("separate", "shift") and r.refused]
        if len(refused) == 2:
            lines.append(f"- {refused[0].file} stays as it is: {refused[0].refused}.")
        elif refused and refused[0].way == "separate":
            lines.append(f"- {refused[0].file} is not separated: {refused[0].refused}.")
        elif not results[0].way:
            lines.append(f"- {results[0].file} was not tried: {results[0].refused}.")
    for one in suites:
        if one["failed"]:
            lines.append(f"- The suite of {one['suite']['name']} did not run: {_cell(one['failed'])}")
        elif one["differ"]:
            lines.append(
                f"- {one['suite']['name']}: {len(one['differ'])} results differ: {_cell('; '.join(one['differ'][:4]))}"
            )
    return "\n".join(lines)


def _suite(one: dict[str, Any]) -> str:
    suite = one["suite"]
    outcome = "not run" if one["failed"] else f"{len(one['differ'])} differ" if one["differ"] else "the same"
    return f"| {suite['name']} | {suite['file']} | {suite['what']} | {one['count']} | {outcome} |"


def _row(r: "Result") -> str:
    if not r.way:
        return f"| {r.file} | | not tried: {_cell(r.refused)} | | | | | | | |"
    start = f"| {r.file} | {r.way} | {format_size(r.text)} | {r.windows_before}"
    if r.refused:
        return f"{start} | refused: {_cell(r.refused)} | | | | | |"
    share = 100 * r.covered / max(r.text, 1)
    named = {None: "", True: "right", False: "wrong"}[r.named]
    sizes = f"{share:.1f} % | {format_size(max(0, r.executable))} | {format_size(r.growth)}"
    return f"{start} → {r.windows} | {sizes} | {_answer(r.loads)} | {_answer(r.same)} | {named} |"


def _answer(value: bool) -> str:
    return "yes" if value else "no"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:200]
