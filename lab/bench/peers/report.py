"""The tables, from the documents that `measure` makes.  Pure but for the date."""

import datetime as dt
from collections import Counter
from typing import Any

_BLOCKS, _OUR_BLOCKS = "BOLT, blocks", "hugealign, blocks"
Row = dict[str, Any]
Series = tuple[str, str, bool, bool]  # title, profile, ours, filled

_HEAD = """\
# Against the peers

Each page has the simulated misses of one program under the orders of hugealign, LLD, gold and BOLT; [what the
comparison shows](peers-summary.md) has the result.

| program | written in, compiled by | text |
|---|---|--:|
| [generated](peers/generated.md) | C, gcc | 25 MiB |
| [clang](peers/clang.md) | C++, clang 19 | 66 MiB |
| [sqlite](peers/sqlite.md) | C, clang 19 | 1.0 MiB |
| [gawk](peers/gawk.md) | C, clang 19 | 0.5 MiB |
| [script](peers/script.md) | Rust 1.86, its bitcode by clang 19 | 2.8 MiB |
| [backends](peers/backends.md) | C++, LLVM 14, by Debian's gcc; the code that ran, by clang 19 | 36 MiB |
| [lowering](peers/lowering.md) | C++, MLIR 19, by Debian's clang; the code that ran, by clang 19 | 66 MiB |

The rules of `order` were chosen on the first two of these programs, on cc1plus and on two servers. The others were only
for judging, except that six rules were chosen on some of them (`lab/bench/peers/heldout.py` names which).

`python -m lab.bench.peers --write docs/measured` measures all programs; `--program NAME` measures one and writes its
page. Misses, windows and sizes are the same wherever Debian's packages are. (Clang's are nearly the same: its runs
differ in some blocks, and so do the samples drawn from them.) Bytes on huge pages depend on the kernel, times on the
machine; each page names both.

Clang, backends and lowering are linked from Debian's archives. Some members of these archives are recompiled from
Debian's sources, for all peers alike (`lab/bench/peers/llvm.py`), so that their functions can be split. The recompiled
members hold 99.9 % of the calls of the first run and 98 % of the bytes of the functions that ran: 711 files of clang,
706 of backends, 585 of lowering.

"""
_HOW = """\
## How

All builds of a program link the same objects. Two runs of the program, linked by GNU ld, are traced. The builds learn
from the first run; the second, with other input, judges them. Linkers only move functions, so the second trace is
replayed with the addresses of each build (`hugealign simulate --layout elf:FILE`). BOLT rewrites code, and hugealign
recompiles for its blocks, so the bench traces the files that these two make.

- **budget**: the number of 2 MiB windows that are huge; everything else is on 4 KiB pages. In **the goal** it is a
  limit: each build gets as many windows, up to the budget, as are best for it in the run that it is judged by.
  hugealign's huge windows are its leading ones, because it puts the code that ran there. No peer chooses windows, so
  the bench chooses for it: of the windows that the kernel can map huge, those in which most instructions of the first
  run ran. It uses all of that run, whatever the peer's own profile is; no peer does as well by itself. For BOLT, which
  rewrites code, it traces that run once more, with the file that BOLT made.
- **profiles**: `full` is every instruction and call of the first run; for BOLT, every branch of the same run of the
  file that it rewrites, through `perf2bolt -pa`. `N samples` are addresses drawn from that run, weighted by
  instructions, with no calls, as a profiler in a virtual machine delivers them; BOLT gets them at their addresses, as
  from `perf2bolt -nl`.
- **order**, with and without **fill**: made separately for each budget, with `hugealign order --windows N`.
  The order of hugealign's **blocks** is too, with `hugealign order-trace --blocks T --windows N`.
- **recipes**: BOLT's is from its README (llvm-project, bolt/README.md, "Step 3"): `-reorder-blocks=ext-tsp
  -reorder-functions=cdsort -split-functions -split-all-cold -split-eh`. The bench checks that BOLT considers less than
  1 % of the functions stale, and lists what `-dyno-stats` says with the build. lld takes the call graph with
  `--call-graph-ordering-file` (lld/ELF/Driver.cpp) and sorts it in its own two ways. gold's and lld's lists put the
  hottest function first, as scripts on the web do. libhugetlbfs follows its HOWTO, "Linking the application with
  --hugetlbfs-align".
- **BOLT, blocks** also moves single blocks. Blocks that did not run leave their functions, which makes less code hot
  than any order of functions can.
- Windows **that ran** hold any code of the second run; **99.9 %** is the number that hold so much of its instructions;
  the file's layout decides how many **can** be huge. For **live**, the file is evicted from the page cache; then
  hugealign's builds get `hugealign warm`, the others one run. libhugetlbfs has hugetlb pages reserved. Only BOLT's own
  start-up code calls madvise.
- Misses are means of 4 runs of the simulation, or of 32 for a program of up to 4 MiB of text. Each run has the
  program's libraries at other pages, the same for all builds, because the kernel draws those for each process. In a TLB
  with sets, they decide whether a program that nearly fits misses hundreds or tens of thousands of times. Over the
  runs, each library lies in all parts of the sets equally often (a Latin hypercube), so 32 runs give SQLite's misses to
  0.1 %.
- Only first-level misses are counted. Data and the kernel share the second level, and a trace does not have them.
"""


def head() -> str:
    """Return the page that says how all are measured, and names the programs."""
    return _HEAD + _HOW


def page(document: dict[str, Any], machine: str) -> str:
    """Return the page of one program."""
    name, date = document["program"], dt.datetime.now(tz=dt.UTC).date().isoformat()
    command = f"`python -m lab.bench.peers --program {name} --write docs/measured`"
    made = f"Written by {command} on {date}: Debian 12, {machine}. [How it is measured](../peers.md#how)."
    counted, worse = _counts(document)
    shown = (
        f"A peer that keeps functions whole misses less than hugealign in {worse[True]} of {counted[True]} cases with "
        f"huge windows, and in {worse[False]} of {counted[False]} without."
    )
    lines = [f"# {name}, against the peers", "", shown, "", *_table(document), *_program(document)]
    return "\n".join([*lines, "## How it was made", "", made, ""])


def _program(document: dict[str, Any]) -> list[str]:
    ran, size = document["ran"]
    train, test = document["events"]
    sampled = ", ".join(f"{name} see {count:,}" for name, count in document["sampled"].items() if name != "full")
    sizes = (
        f"{document['functions']:,} functions, {document['text'] / (1 << 20):.1f} MiB of text. The first run executes "
        f"{train:,} blocks, in {ran:,} functions of {size / (1 << 20):.1f} MiB; of these functions, {sampled}. The "
        f"second run executes {test:,} blocks."
    )
    lines = [document["about"], "", sizes, ""]
    lines += [*_goal(document), *_files(document)]
    for cpu in document["cpus"]:
        lines += _misses(document, cpu)
    if "links" in document:
        words = "processor time and wall time of a link; `order` and `lists` use the full profile"
        lines += _times("Cost of a link", words, document["links"])
        words = "a fixed run of the program with warm text"
        lines += _times("Time of the program", words, document["jobs"])
        if "timed" in document:
            lines += [f"Links and jobs were timed on {document['timed']}.", ""]
    return lines


# ---- series: one line of a table of misses


def series(document: dict[str, Any], cpu: str) -> dict[Series, dict[int, int]]:
    """Return misses by budget for each (title, profile, ours, filled); those made for a budget each are one."""
    result: dict[Series, dict[int, int]] = {}
    for row in document["rows"]:
        key = row["title"], row["learned"], row["ours"], row["fill"]
        for budget, misses in row["misses"][cpu].items():
            result.setdefault(key, {}).setdefault(int(budget), misses)
    return result


def violations(
    document: dict[str, Any], cpu: str, learned: str, blocks: bool = False
) -> dict[int, tuple[int, int, str]]:
    """Return the budgets within which a peer with that profile, or none, misses less than order and fill.

    With theirs, ours, and who it is: peers that keep functions whole, or with *blocks* the one that does not.  Each has
    the number of huge windows, up to the budget, at which it misses least.
    """
    lines = series(document, cpu)
    filled = ours(lines, learned)
    worse = {}
    for budget in sorted(filled):
        misses = least(filled, budget)
        peers = [
            (least(line, budget), title)
            for (title, known, own, _), line in lines.items()
            if not own and known in ("", learned) and budget in line and title.startswith(_BLOCKS) == blocks
        ]
        if peers and min(peers)[0] < misses:
            worse[budget] = (min(peers)[0], misses, min(peers)[1])
    return worse


def factors(document: dict[str, Any], cpu: str, learned: str, better: str = "") -> dict[int, float]:
    """Return by how many times the best order without fill, of that profile, misses more than order and fill.

    Of the same profile, or of one that is *better*.
    """
    lines = series(document, cpu)
    bare = [
        line
        for (title, known, _, fill), line in lines.items()
        if known == learned and not fill and not title.startswith((_BLOCKS, _OUR_BLOCKS))
    ]
    filled = ours(lines, better or learned)
    return {
        budget: min(least(line, budget) for line in bare if budget in line) / max(1, least(filled, budget))
        for budget in filled
        if any(budget in line for line in bare)
    }


def least(line: dict[int, int], budget: int) -> int:
    """Return the fewest misses with at most so many huge windows."""
    return min(misses for count, misses in line.items() if count <= budget)


def ours(lines: dict[Series, dict[int, int]], learned: str) -> dict[int, int]:
    """Return the line of order and fill with that profile; an empty one if it has not been measured."""
    return next((line for (_, known, own, fill), line in lines.items() if own and fill and known == learned), {})


def _counts(document: dict[str, Any]) -> tuple[Counter[bool], Counter[bool]]:
    """Return the cases with huge windows and without, and those in which a peer with whole functions is better."""
    pairs = [(cpu, learned) for cpu in document["cpus"] for learned in document["sampled"]]
    every = Counter(budget > 0 for cpu, learned in pairs for budget in ours(series(document, cpu), learned))
    return every, Counter(budget > 0 for cpu, learned in pairs for budget in violations(document, cpu, learned))


def _table(document: dict[str, Any]) -> list[str]:
    """Return in how many cases a peer misses less: with huge windows and without, and those that split functions."""
    cells = ("cases with huge windows", "a peer misses less", "cases without", "a peer misses less")
    lines = [f"| case: a processor and a budget | {' | '.join(cells)} |", "|---|--:|--:|--:|--:|"]
    cpus = document["cpus"]
    for title, learned, blocks in (
        *((f"peers that keep functions whole, {name}", name, False) for name in document["sampled"]),
        ("BOLT's blocks, full, against whole functions", "full", True),
    ):
        every = [budget for cpu in cpus for budget in ours(series(document, cpu), learned)]
        worse = [budget for cpu in cpus for budget in violations(document, cpu, learned, blocks)]
        lines.append(_counted(title, every, worse))
    divided = [(budget, *misses) for cpu in cpus for budget, misses in both(document, cpu).items()]
    if divided:
        worse = [budget for budget, mine, theirs in divided if theirs < mine]
        lines.append(_counted("BOLT's blocks, full, against hugealign's", [budget for budget, *_ in divided], worse))
    return [*lines, ""]


def _counted(title: str, every: list[int], worse: list[int]) -> str:
    cells = [sum((n > 0) == windows for n in budgets) for windows in (True, False) for budgets in (every, worse)]
    return f"| {title} | {' | '.join(map(str, cells))} |"


def both(document: dict[str, Any], cpu: str) -> dict[int, tuple[int, int]]:
    """Return the misses of hugealign's blocks and of BOLT's within every budget; nothing where one is not there."""
    result = series(document, cpu)
    lines = [
        next((line for (name, *_), line in result.items() if name == title), {}) for title in (_OUR_BLOCKS, _BLOCKS)
    ]
    if not all(lines):
        return {}
    return {budget: (least(lines[0], budget), least(lines[1], budget)) for budget in document["budgets"]}


def _goal(document: dict[str, Any]) -> list[str]:
    lines = ["## The goal", ""]
    lines += ["The goal: within every budget, no peer with the same profile has fewer misses.", ""]
    lines += ["<details><summary>The exceptions</summary>", ""]
    lines += [
        "| processors | profile | budgets within which one does | | and BOLT, with blocks |",
        "|---|---|---|---|---|",
    ]
    for cpu in document["cpus"]:
        for learned in [name for name in document["sampled"] if ours(series(document, cpu), name)]:
            worse = violations(document, cpu, learned)
            budgets = ", ".join(map(str, worse)) or "none"
            by = ""
            if worse:
                least, misses, title = max(worse.values(), key=lambda found: found[1] / max(1, found[0]))
                by = f"at most {misses / max(1, least):.2f} times as many: {misses:,} to {least:,} of {title}"
            more = ", ".join(map(str, violations(document, cpu, learned, blocks=True)))
            lines.append(f"| {cpu} | {learned} | {budgets} | {by} | {more} |")
    learned = min(document["sampled"], key=lambda name: document["sampled"][name])
    full = max(document["sampled"], key=lambda name: document["sampled"][name])
    lines += ["", "</details>"]
    words = f"With {learned}, the best order without fill misses this many times as often as order and fill"
    lines += ["", f"{words}:", "", *_factors(document, learned, learned)]
    words += " of the full profile, which knows all of the first run:"
    lines += ["", words, "", *_factors(document, learned, full)]
    return [*lines, "", *_blocks(document)]


def _blocks(document: dict[str, Any]) -> list[str]:
    """Return the table of both tools' blocks, if there are ours: the misses of each within every budget."""
    budgets = document["budgets"]
    lines = ["Misses with the full profile: hugealign's blocks, BOLT's blocks, hugealign's whole functions:", ""]
    lines += [f"| processors | {' | '.join(map(str, budgets))} |", f"|---|{'---|' * len(budgets)}"]
    for cpu in document["cpus"]:
        divided, whole = both(document, cpu), ours(series(document, cpu), "full")
        if not divided or not whole:
            return []
        cells = (f"{divided[n][0]:,}, {divided[n][1]:,}, {least(whole, n):,}" for n in budgets)
        lines.append(f"| {cpu} | {' | '.join(cells)} |")
    return [*lines, ""]


def _factors(document: dict[str, Any], learned: str, better: str) -> list[str]:
    budgets = document["budgets"]
    lines = [f"| processors | {' | '.join(map(str, budgets))} |", f"|---|{'--:|' * len(budgets)}"]
    for cpu in document["cpus"]:
        result = factors(document, cpu, learned, better)
        lines.append(
            f"| {cpu} | {' | '.join(f'{result[budget]:.1f}' if budget in result else '' for budget in budgets)} |"
        )
    return lines


def _files(document: dict[str, Any]) -> list[str]:
    lines = [
        "## The files",
        "",
        "Sizes are in KiB. Seconds are the processor time of all that ran to make the file, including the linker",
        "but not mold, which links in a process that is not waited for.",
        "",
        "<details><summary>All builds</summary>",
        "",
        "| build | profile | ran | 99.9 % | can | text, live | huge | resident | file | on disk | seconds |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    ways: dict[str, str] = {}
    for row in document["rows"]:
        if "live" not in row:
            continue
        seen = row["live"]
        live = (
            [f"not measurable here: {seen['why']}", "", ""]
            if seen["why"]
            else [f"{seen[key]:,}" for key in ("text", "huge", "resident")]
        )
        cells = [
            row["title"] + (f" to {row['budget']}" if row["budget"] else ""),
            row["learned"] or "--",
            *map(str, (row["needed"], row["most"], row["mappable"])),
            *live,
            f"{row['size'] >> 10:,}",
            f"{row['disk'] >> 10:,}",
            f"{row['seconds']:.1f}" if row["seconds"] >= 0 else "--",
        ]
        lines.append(f"| {' | '.join(cells)} |")
        ways.setdefault(row["title"], row["how"])
    lines += ["", "Made by:", ""]
    return [*lines, *(f"- {title}: {how}" for title, how in ways.items()), "", "</details>", ""]


def _misses(document: dict[str, Any], cpu: str) -> list[str]:
    budgets = document["budgets"]
    lines = [
        f"## Misses: {cpu}",
        "",
        "<details><summary>All builds</summary>",
        "",
        f"| build | profile | {' | '.join(map(str, budgets))} |",
        f"|---|---|{'--:|' * len(budgets)}",
    ]
    for (title, learned, _, _), line in series(document, cpu).items():
        cells = " | ".join(f"{line[budget]:,}" if budget in line else "" for budget in budgets)
        lines.append(f"| {title} | {learned or '--'} | {cells} |")
    return [*lines, "", "</details>", ""]


def _times(title: str, words: str, rows: list[Row]) -> list[str]:
    """Return a table of what was run in turn; the first is what the others are compared with."""
    how = (
        f"{words[0].upper()}{words[1:]}. {rows[0]['rounds']} rounds, in turn. Seconds are the least; ratios compare "
        "pairs with the first line and have a 95 % interval. No claim is made if that spans 1."
    )
    lines = [f"## {title}", "", how, "", "| | CPU s | ratio | wall s | ratio |", "|---|--:|---|--:|---|"]
    for row in rows:
        cpu, wall = row["cpu"], row["wall"]
        lines.append(f"| {row['name']} | {cpu['least']:.2f} | {cpu['ratio']} | {wall['least']:.2f} | {wall['ratio']} |")
    return [*lines, ""]
