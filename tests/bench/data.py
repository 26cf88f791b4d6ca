"""Do read-only data on huge pages pay?  Misses of real programs, counted while they run under QEMU.

``python -m tests.bench.data docs/results/rodata.md`` runs each program once and writes the answer.  Fetches, loads and
stores go through models of both first-level TLBs and of the second level, which serves both where the processor has it
so.  Each model runs four times: nothing huge, the text huge, read-only data huge, both; of the program and of its
libraries, as a link with ``HUGEALIGN_SEGMENTS=text,rodata`` lays them out, in whole windows.  Stack, heap and written
data stay on 4 KiB pages.  It counts misses of one thread, not time, and not those of the kernel.
"""

import datetime as dt
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hugealign.elf.image import read_file
from hugealign.machine import libraries
from hugealign.native import library
from tests.support import environment

PLUGIN = Path(__file__).with_suffix(".c")
TEXT, RODATA = 1, 2
#: What is huge, in the columns' order.
HUGE = {"4 KiB pages": 0, "text huge": TEXT, "read-only data huge": RODATA, "both huge": TEXT | RODATA}


@dataclass(frozen=True, slots=True)
class Model:
    """A processor: (entries, ways) of the first level for code and for data, small and huge, and of the second level.

    A number is the table of that number before it, in that order: small and huge code, small and huge data, then the
    same of the second level.
    """

    tables: tuple[tuple[int, int] | int, ...]
    source: str

    @property
    def words(self) -> str:
        """The tables as the plugin reads them."""
        return " ".join(f"0 {t}" if isinstance(t, int) else f"{t[0]} {t[1]}" for t in self.tables)


MODELS = {
    "skylake": Model(
        ((128, 8), (8, 8), (64, 4), (32, 4), (1536, 12), 4, 4, 4),
        "OptMan 248966-045, table 2-15: one second level for code and data, of both sizes",
    ),
    "zen5": Model(
        ((64, 64), 0, (96, 96), 2, (2048, 8), 4, (4096, 16), 6),
        "SOG 58455, Hot Chips 2024; CPUID 80000005h of B00F21h, read from a machine: 64 and 96; second levels apart",
    ),
    "neoverse-n1": Model(
        ((48, 48), 0, (48, 48), 2, (1280, 5), 4, 4, 4),
        "TRM 100616 (as Cortex-A76, TRM 100798): one second level for all",
    ),
}


@dataclass(frozen=True, slots=True)
class Counts:
    """Misses of the first level and walks, of code and of data, for one model with something huge."""

    code: int
    data: int
    code_walks: int
    data_walks: int


@dataclass(frozen=True, slots=True)
class Measured:
    """What one program did: *instructions*, and counts by model and by what was huge; *rodata* are bytes."""

    instructions: int
    rodata: int
    counts: dict[tuple[str, str], Counts]


def files(program: str) -> list[str]:
    """Return the program and its libraries, which are mapped under their real paths."""
    return [os.path.realpath(path) for path in (program, *libraries.resolve(program).paths)]


def measure(words: Sequence[str], work: Path) -> Measured:
    """Run *words* under QEMU with the plugin.  Raises HugealignError, CalledProcessError."""
    program = os.path.realpath(words[0])
    out, config = work / "counts", work / "config"
    lines, size = [f"out {out}"], 0
    for path in files(program):
        image = read_file(path)
        for kind, segments in ((TEXT, image.text_segments), (RODATA, image.rodata_segments)):
            for s in segments:
                start = s.p_offset - s.p_offset % 4096
                lines.append(f"file {start} {s.p_offset + s.p_filesz} {kind} {path}")
                size += s.p_filesz if kind == RODATA else 0
    lines += [f"machine {huge} {model.words}" for model in MODELS.values() for huge in HUGE.values()]
    config.write_text("\n".join(lines) + "\n")
    plugin = library(str(PLUGIN), "API_VERSION=1")
    command = ("qemu-x86_64", "-plugin", f"file={plugin},config={config}", program, *words[1:])
    # The descriptor of the plugin, which is its path.
    subprocess.run(
        command, check=True, env=environment(), stdout=subprocess.DEVNULL, cwd=work, close_fds=False, timeout=3600
    )
    first, *rows = [[int(word) for word in line.split()] for line in out.read_text().splitlines()]
    keys = [(model, huge) for model in MODELS for huge in HUGE]
    return Measured(first[0], size, {key: Counts(*row) for key, row in zip(keys, rows, strict=True)})


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


def table(measured: Measured) -> str:
    """Return the counts of one program as Markdown: misses for a thousand instructions."""
    lines = [f"| {' | '.join(('', *HUGE))} |", f"|---|{'--:|' * len(HUGE)}"]
    for model in MODELS:
        for name, field in (
            ("iTLB misses", "code"),
            ("dTLB misses", "data"),
            ("walks for code", "code_walks"),
            ("walks for data", "data_walks"),
        ):
            cells = [
                f"{getattr(measured.counts[model, huge], field) * 1000 / measured.instructions:.4f}" for huge in HUGE
            ]
            lines.append(f"| {model}: {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def saved(measured: Measured, model: str, before: str, after: str, field: str) -> float:
    """Return the per cent of misses that *after* saves against *before*; negative if there are more."""
    was = getattr(measured.counts[model, before], field)
    return 100 * (was - getattr(measured.counts[model, after], field)) / was if was else 0.0


def document(found: dict[str, Measured]) -> str:
    """Return docs/results/rodata.md."""
    rows = []
    for name, one in found.items():
        for model in MODELS:
            dtlb = saved(one, model, "text huge", "both huge", "data")
            walks = saved(one, model, "text huge", "both huge", "data_walks")
            code = saved(one, model, "4 KiB pages", "text huge", "code")
            rows.append(f"| {name} | {model} | {code:.1f} % | {dtlb:.1f} % | {walks:.1f} % |")
    sources = "\n".join(f"- {name}: {model.source}." for name, model in MODELS.items())
    parts = "\n\n".join(
        f"### {name}\n\n{one.instructions:,} instructions; {one.rodata / (1 << 20):.1f} MiB of read-only segments in "
        f"the program and its libraries.\n\n{table(one)}"
        for name, one in found.items()
    )
    head = (__doc__ or "").partition("and writes the answer.  ")[2].strip().replace("``", "`")
    return (
        f"# Do read-only data on huge pages pay?\n\nWritten by `python -m tests.bench.data`, "
        f"{dt.datetime.now(tz=dt.UTC).date()}.\n\n{head}\n\n"
        "What is saved: of iTLB misses by huge text; then, with the text huge, of dTLB misses and of walks for data by "
        "huge\nread-only data.\n\n"
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
