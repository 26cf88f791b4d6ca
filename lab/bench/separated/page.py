"""The page of `lab.bench.separated`: a summary, what failed, and all files and suites, folded."""

import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hugealign.io.units import format_size

if TYPE_CHECKING:
    from lab.bench.separated.__main__ import Result

_WAYS = ("separate", "shift", "hugifyr", "hugifyr -n")
_FIX = "fix"
#: What differs in the reasons of files that are refused for the same.
_DETAIL = re.compile(r"0x[0-9a-f]+|[\d.]+ [KM]iB|LOAD \d+")


def page(files: Sequence[Sequence["Result"]], suites: Sequence[dict[str, Any]]) -> str:
    """Return the page of the results of *files*, each by every way, and of *suites*."""
    tried = [results for results in files if results[0].way]
    kernel = ".".join(platform.release().split(".")[:2])
    debian = Path("/etc/debian_version").read_text(encoding="ascii").strip()
    ways = {way: [next(r for r in results if r.way == way) for results in tried] for way in _WAYS}
    best = [shifted if r.refused else r for r, shifted in zip(ways["separate"], ways["shift"], strict=True)]
    ways = {_FIX: best, **ways}
    moved = [r for r in ways["separate"] if r.refused]
    executable = format_size(sum(max(0, r.executable) for r in best if r.same))
    suite_rows = "\n".join(_suite(item) for item in suites)
    file_rows = "\n".join(_row(result) for results in files for result in results)
    return f"""# fix against hugifyr

Of {len(tried)} finished files, `hugealign fix` {_outcome(ways[_FIX])}; hugifyr {_outcome(ways["hugifyr"])}.
`separate` alone refuses {len(moved)}; where `fix` shifts instead, it makes {executable} of data executable.

{_summary(ways)}

*fix* is what `hugealign fix` does without `--level`: `separate`, or `shift` if that is refused. hugifyr
(github.com/anadav/hugifyr at 369d59a, MIT) moves the text as `separate` does. *Covered* is text in whole windows of
2 MiB; refused files count with the windows that they had. *Data made executable*: bytes of sections without code in
segments that are now executable. *Debug information*: the names and lines that llvm-symbolizer finds for 300 functions,
in the files that have any.

## What failed

{_not_right(ways, files, suites)}

<details><summary>How it was made</summary>

`python -m lab.bench.separated --hugifyr PROGRAM`, `--suites`, and `--write` (lab/bench/separated) on
{datetime.now(tz=UTC):%Y-%m-%d}: Debian {debian}, Linux {kernel}.
hugifyr needs a libelf that knows RELR and zstd, and a libdwarf from before 0.4. It was built by its README's commands
in Debian 13, with Debian 12's libdwarf, and tried on each file with and without `-n`, which leaves debug information
alone. All files are judged alike: by the program headers that were written, as `verify` reads them; by the status and
output of a job of the file; and by the dynamic linker, if the job differs. The
suites ran in a fresh Debian 12, with Debian's file and with the same after `hugealign fix --in-place`. Debian's
separate debug files were not merged for hugifyr, as its README proposes, nor moved for `fix`.

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


def _outcome(results: Sequence["Result"]) -> str:
    refused = sum(bool(result.refused) for result in results)
    return f"refuses {refused} and breaks {sum(not result.same for result in results if not result.refused)}"


def _summary(ways: dict[str, list["Result"]]) -> str:
    made = {way: [r for r in results if not r.refused] for way, results in ways.items()}
    good = {way: [r for r in results if r.same] for way, results in made.items()}
    total = max(1, sum(r.text for r in ways[_FIX]))
    # A refused file stays as it was; one that breaks has nothing.
    left = {way: sum(r.covered for r in results if r.refused or r.same) for way, results in ways.items()}
    rows = {
        "refused": [str(len(ways[way]) - len(made[way])) for way in ways],
        "written, but do not load": [str(sum(not r.loads for r in made[way])) for way in ways],
        "load, but give another result, or crash": [
            str(sum(r.loads and not r.same for r in made[way])) for way in ways
        ],
        "do the same": [str(len(good[way])) for way in ways],
        "of these, with all text covered": [str(sum(r.covered == r.text for r in good[way])) for way in ways],
        "text covered, of all files": [f"{100 * left[way] / total:.1f} %" for way in ways],
        "data made executable": [format_size(sum(max(0, r.executable) for r in good[way])) for way in ways],
        "growth": [format_size(sum(r.growth for r in good[way])) for way in ways],
        "debug information right": [
            f"{sum(bool(r.named) for r in good[way])} of {sum(r.named is not None for r in good[way])}" for way in ways
        ],
    }
    lines = [f"| {len(ways[_FIX])} files | {' | '.join(ways)} |", f"|---|{'--:|' * len(ways)}"]
    return "\n".join(lines + [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()])


def _not_right(
    ways: dict[str, list["Result"]], files: Sequence[Sequence["Result"]], suites: Sequence[dict[str, Any]]
) -> str:
    lines = []
    for way in ("separate", "shift"):
        wrong = [r.file for r in ways[way] if not r.refused and not r.same]
        lost = [r.file for r in ways[way] if r.named is False]
        lines.append(f"- `{way}` broke {_files(wrong)}, and debug information in {_files(lost)}.")
    reasons: dict[str, list[str]] = {}
    for results in files:
        refused = {r.way: r.refused for r in results if r.refused}
        if "separate" in refused:
            left = "Left unchanged" if "shift" in refused else "Shifted, not separated"
            reason = _DETAIL.sub("…", refused["separate"].partition(";")[0])
            reasons.setdefault(f"{left} ({reason})", []).append(results[0].file)
        elif "" in refused:
            reasons.setdefault(f"Not tried ({refused['']})", []).append(results[0].file)
    lines += [f"- {reason}: {_files(names)}." for reason, names in reasons.items()]
    for item in suites:
        if item["failed"]:
            lines.append(f"- The suite of {item['suite']['name']} did not run: {_cell(item['failed'])}")
        elif item["differ"]:
            differ = _cell("; ".join(item["differ"][:4]))
            lines.append(f"- {item['suite']['name']}: {len(item['differ'])} results differ: {differ}")
    return "\n".join(lines)


def _files(names: list[str]) -> str:
    count = f"{len(names) or 'no'} file{'s' * (len(names) != 1)}"
    return count + (f" ({', '.join(names)})" if names else "")


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
