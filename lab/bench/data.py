"""Do read-only data on huge pages pay?  Misses of real programs, counted with and without.

``python -m lab.bench.data docs/results/rodata.md`` traces each program once, by ``hugealign trace --data``,
and writes the answer.  Fetches, loads and stores go through models of both first-level TLBs and of the second level,
which serves both if the processor shares it (``hugealign simulate --data``).  Each model runs four times: with nothing
huge, the text huge, read-only data huge, and both.  This applies to the program and its libraries, in whole
windows, as a link with ``HUGEALIGN_SEGMENTS=text,rodata`` lays them out.  Stack, heap and written data stay on 4 KiB
pages.  The counts are misses of one thread, without the kernel's; they are not time.
"""

import datetime as dt
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hugealign.system.processors import find
from hugealign_lab.data import DataSimulation
from hugealign_lab.simulation import DATA_CPUS, simulated_data
from tests.support import HUGEALIGN, environment

#: What is huge, in the columns' order: the column, and the name of the row.
HUGE = {"4 KiB pages": "none", "text huge": "text", "read-only data huge": "rodata", "both huge": "text,rodata"}


def measure(words: Sequence[str], work: Path) -> DataSimulation:
    """Trace *words* and simulate that.  Raises HugealignError, CalledProcessError."""
    trace = work / "data.trace"
    program = os.path.realpath(words[0])
    # The same addresses each time: the host's are part of what QEMU tells the program.
    options = ("--data", "--limit=8G", "-o", str(trace))
    command = ("setarch", "-R", str(HUGEALIGN), "trace", *options, "--", program, *words[1:])
    subprocess.run(command, check=True, env=environment(), stdout=subprocess.DEVNULL, cwd=work, timeout=3600)
    try:
        return simulated_data(str(trace)).done
    finally:
        trace.unlink()


def programs(work: Path) -> dict[str, list[str]]:
    """Return what is run, by its name: a compiler, an interpreter, a database."""
    source = work / "unit.cc"
    source.write_text(
        "#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>\n"
        "int f(std::string s) { std::map<std::string, std::vector<int>> m; m[s].push_back(1);\n"
        "  std::sort(s.begin(), s.end()); return (int)m.size() + s[0]; }\n"
    )
    compiler = subprocess.run(("g++", "-print-prog-name=cc1plus"), capture_output=True, text=True, check=True)
    preprocessed = work / "unit.ii"
    subprocess.run(("g++", "-E", source, "-o", preprocessed), check=True)
    script = "import ast, json; [json.loads(json.dumps(ast.dump(ast.parse(open(ast.__file__).read())))) for _ in '12']"
    sql = (
        "create table t(a integer primary key, b text); insert into t select value, hex(value*7919) from "
        "generate_series(1,60000); create index i on t(b); select count(*), max(length(b)) from t where b like '%3%';"
        "select sum(a) from t x join t y using(a) where y.b > '7';"
    )
    return {
        "cc1plus -O1, a unit with `<map>`": [
            compiler.stdout.strip(), "-quiet", "-O1", str(preprocessed), "-o", "/dev/null",
        ],
        "python3 -S, parsing and JSON": ["/usr/bin/python3", "-S", "-c", script],
        "sqlite3, insert, index, join": ["/usr/bin/sqlite3", ":memory:", sql],
    }  # fmt: skip


def table(measured: DataSimulation) -> str:
    """Return the counts of one program as Markdown: misses for a thousand instructions."""
    lines = [f"| {' | '.join(('', *HUGE))} |", f"|---|{'--:|' * len(HUGE)}"]
    for model in DATA_CPUS:
        for name, field in (
            ("iTLB misses", "code_misses"),
            ("dTLB misses", "data_misses"),
            ("walks for code", "code_walks"),
            ("walks for data", "data_walks"),
        ):
            cells = [
                f"{getattr(measured.row(huge, model), field) * 1000 / measured.instructions:.4f}"
                for huge in HUGE.values()
            ]
            lines.append(f"| {model}: {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def saved(measured: DataSimulation, model: str, before: str, after: str, field: str) -> float:
    """Return the per cent of misses that *after* saves against *before*; negative if there are more."""
    was, now = (getattr(measured.row(huge, model), field) for huge in (before, after))
    return 100 * (was - now) / was if was else 0.0


def document(found: dict[str, DataSimulation]) -> str:
    """Return docs/results/rodata.md."""
    rows = []
    for name, one in found.items():
        for model in DATA_CPUS:
            dtlb = saved(one, model, "text", "text,rodata", "data_misses")
            walks = saved(one, model, "text", "text,rodata", "data_walks")
            code = saved(one, model, "none", "text", "code_misses")
            rows.append(f"| {name} | {model} | {code:.1f} % | {dtlb:.1f} % | {walks:.1f} % |")
    cpus = [(name, find(name)) for name in DATA_CPUS]
    sources = "\n".join(f"- {name}: {cpu.source}. Data: {cpu.data.source if cpu.data else ''}." for name, cpu in cpus)
    parts = "\n\n".join(
        f"### {name}\n\n{one.instructions:,} instructions; {one.rodata / (1 << 20):.1f} MiB of read-only segments in "
        f"the program and its libraries.\n\n{table(one)}"
        for name, one in found.items()
    )
    head = (__doc__ or "").partition("and writes the answer.  ")[2].strip().replace("``", "`").replace(".  ", ". ")
    return (
        f"# Do read-only data on huge pages pay?\n\nWritten by `python -m lab.bench.data`, "
        f"{dt.datetime.now(tz=dt.UTC).date()}.\n\n{head}\n\n"
        "The first figure is the share of iTLB misses that huge text saves. The others are the shares of dTLB misses "
        "and of\nwalks for data that huge read-only data saves when the text is huge.\n\n"
        "| program | processor | iTLB misses saved by text | dTLB misses saved by data | walks for data saved |"
        f"\n|---|---|--:|--:|--:|\n{chr(10).join(rows)}\n\n"
        "## Misses for a thousand instructions\n\n"
        f"{parts}\n\n## The processors\n\n{sources}\n"
    )


def main() -> None:
    """Measure, print, and write the document if there is a word for it."""
    with tempfile.TemporaryDirectory(prefix="hugealign-data-") as name:
        work = Path(name)
        found = {}
        for title, words in programs(work).items():
            found[title] = measure(words, work)
            print(f"{title}\n{table(found[title])}\n", flush=True)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(document(found), encoding="utf-8")


if __name__ == "__main__":
    main()
