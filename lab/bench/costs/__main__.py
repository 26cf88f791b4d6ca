"""Benchmarks: each pair of commands runs in turn, A B A B …, in one go; medians, differences and ratios are printed.

``make bench`` runs all parts, writes the rows into ``docs/measured/cost.md``, and compares hugealign with its peers.
Not tests: times on a shared machine vary, so nothing here passes or fails.  Links of PostgreSQL and of clang are
measured where ``make test-postgres`` and the comparison with the peers have built them.
"""

import argparse
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from hugealign.system import this_processor
from lab.bench.costs.fix import large_programs
from lab.bench.costs.order import many_functions
from lab.bench.costs.profiles import compilation
from lab.bench.costs.projects import large_program, programs_in_turn
from lab.bench.costs.ps import many_mappings
from lab.bench.costs.services import service_starts
from lab.bench.costs.stage import starts
from lab.bench.costs.top import many_processes
from lab.bench.costs.verify import many_files
from lab.bench.costs.warm import much_text
from lab.bench.timing import PROCESSOR_TIME, Row, Table, interval, milliseconds
from lab.bench.trace import tracing
from tests.link.bulk import MAIN_OF_ANY, bulk_object
from tests.support import HUGEALIGN, ROOT

POSTGRES = ROOT / "build" / "postgres"
#: What bash does for a tab after the words of a command line.
TAB = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _hugealign; ((${#COMPREPLY[@]}))'
COMPLETIONS = ROOT / "share" / "bash-completion" / "completions" / "hugealign"
HUGEALIGN_GCC = [str(HUGEALIGN), "gcc"]


def demo_objects(directory: Path) -> list[str]:
    """Compile the demo's program of 5 MiB of text, with debug information."""
    subprocess.run([sys.executable, ROOT / "examples" / "demo" / "generate.py", directory], check=True)
    sources = sorted(directory.glob("*.c"))
    for source in sources:
        subprocess.run(["gcc", "-g", "-c", source, "-o", source.with_suffix(".o")], check=True)
    return [str(source.with_suffix(".o")) for source in sources]


def compiles(table: Table, work: Path) -> None:
    """Compile and link small and large programs."""
    (work / "hello.c").write_text('#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n')
    for title, words, rounds in (
        ("compile hello", ["-c", "hello.c", "-o", "hello.o"], 50),
        ("link hello", ["hello.o", "-o", "hello"], 50),
        ("link 8 objects, 5 MiB text, -g", [*demo_objects(work / "demo"), "-o", "demo.out"], 30),
    ):
        table.compare(title, ["gcc", *words], [*HUGEALIGN_GCC, *words], rounds, work)
    alone(table, "sh -c : (a compile and a link)", ["sh", "-c", ":"], work)
    python = os.path.realpath(sys.executable)
    alone(table, "python3 -I -S -c '' (a large link)", [python, "-I", "-S", "-c", ""], work)
    large = ROOT / "build" / "bench" / "large"
    words = ["g++", *large_program(large), "-o", str(work / "large")]
    table.compare("link C++, 8 MiB text, -g", words, [str(HUGEALIGN), *words], 15, large)


def builds(table: Table, work: Path) -> None:
    """Build a whole project."""
    table.show("make -j2, 352 compiles, 32 links", *programs_in_turn(work, 3))


def checks(table: Table, work: Path) -> None:
    """Check a large file, and many."""
    data = work / "data"
    data.write_bytes(os.urandom(1 << 20) * 295)
    (work / "data.s").write_text(f'.section .rodata\n.incbin "{data}"\n.section .note.GNU-stack,"",@progbits\n')
    (work / "big.c").write_text(MAIN_OF_ANY)
    words = [*HUGEALIGN_GCC, "big.c", "data.s", str(bulk_object(work)), "-o", "big"]
    subprocess.run(words, cwd=work, check=True)
    size = (work / "big").stat().st_size >> 20
    alone(table, f"verify of {size} MiB", [str(HUGEALIGN), "verify", "big"], work)
    many_files(table, work)


def answers(table: Table, work: Path) -> None:
    """Request help, and complete words."""
    alone(table, "help", [str(HUGEALIGN), "help"], work)
    alone(table, "help verify", [str(HUGEALIGN), "help", "verify"], work)
    for typed in ("hugealign ver", "hugealign order --cpu ", "hugealign ps ", "hugealign explain "):
        alone(table, f"completion: {typed}".rstrip(), ["bash", "-c", TAB, str(COMPLETIONS), *typed.split(" ")], work)


def alone(table: Table, title: str, argv: list[str], work: Path) -> None:
    """Time one command."""
    table.alone(title, [milliseconds(argv, work) for _ in range(20)])


def postgres(table: Table, work: Path) -> None:
    """Link the server of the plain build again, and configure."""
    directory = POSTGRES / "trees" / "plain" / "src" / "backend"
    if not (directory / "postgres").exists():
        print("PostgreSQL: not built (make test-postgres); its link and configure are not measured")
        return
    # -W: as if this input had just changed; -n: only print.
    words = ["make", "-n", "-W", "main/main.o", "postgres"]
    lines = subprocess.run(words, cwd=directory, capture_output=True, text=True, check=True).stdout.splitlines()
    command = shlex.split(next(line for line in lines if " -o postgres" in line))
    command[command.index("-o") + 1] = str(work / "postgres")
    table.compare("link postgres, 5 MiB text", command, [str(HUGEALIGN), *command], 20, directory)
    configure = shlex.quote(str(POSTGRES / "source" / "current" / "configure"))
    script = f'mkdir -p "$1" && cd "$1" && exec {configure} CC="$2"'
    plain, ours = (["sh", "-c", script, "-", *kind] for kind in (("plain.out", "gcc"), ("ours.out", "hugealign gcc")))
    table.compare("PostgreSQL's ./configure", plain, ours, 3, work)


def profiles(table: Table, work: Path) -> None:
    """Order by a profile."""
    if shutil.which("clang++") and shutil.which("perf"):
        compilation(table, work, 5)
    else:
        print("clang++ or perf: not installed; an order of a profile is not measured")


PARTS: dict[str, Callable[[Table, Path], None]] = {
    "compiles": compiles,
    "builds": builds,
    "postgres": postgres,
    "orders": many_functions,
    "verify": checks,
    "help": answers,
    "ps": many_mappings,
    "top": many_processes,
    "warm": much_text,
    "run": starts,
    "services": service_starts,
    "fix": lambda table, _: large_programs(table),
    "profiles": profiles,
    "trace": tracing,
}


#: How the titles of rows begin that stand in the second table of the page, as those without a comparison do.
DETAILS = ("order,", "trace", "verify 1500 files -j", "verify 10 files")


def write(table: Table, page: Path) -> None:
    """Replace both tables of *page* by these rows, and the line that says when and where they were measured."""
    compared = [row for row in table.rows if row.versus and not row.title.startswith(DETAILS)]
    main = [row for row in compared if not row.title.endswith(PROCESSOR_TIME)]
    tables = iter((_lines(main), _lines(row for row in table.rows if row not in main)))
    text = page.read_text(encoding="utf-8")
    text, count = re.subn(r"(?m)^\| milliseconds[^\n]*\n(?:\|[^\n]*\n)+", lambda _: next(tables), text)
    machine = f"{os.cpu_count()} cores, {this_processor.from_files().brand}, Linux {platform.release()}"
    day = f"Measured on {time.strftime('%Y-%m-%d')}: {machine}."
    text, days = re.subn(r"(?m)^Measured on [^\n]*$", lambda _: day, text)
    if (count, days) != (2, 1):
        raise SystemExit(f"cannot write {page}: it has {count} tables and {days} lines of where they are from")
    page.write_text(text, encoding="utf-8")


def _lines(rows: Iterable[Row]) -> str:
    lines = ["| milliseconds (medians) | plain | hugealign | ratio, 95 % interval |", "|---|--:|--:|--:|"]
    for row in rows:
        plain, versus = (f"{row.plain:,.1f}", interval(row.versus)) if row.plain and row.versus else ("--", "--")
        lines.append(f"| {row.title} | {plain} | {row.ours:,.1f} | {versus} |")
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    """Run them all, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.costs", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", choices=[*PARTS, []], help=f"{', '.join(PARTS)} (default: all)"
    )
    parser.add_argument("--older", metavar="CHECKOUT", help="also compare with hugealign in an older checkout")
    parser.add_argument("--write", metavar="PAGE", type=Path, help="write the rows into this page")
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    table = Table(str(Path(args.older, "bin", "hugealign").resolve(strict=True)) if args.older else "")
    for part in args.parts or PARTS:
        with tempfile.TemporaryDirectory(prefix="hugealign-bench-") as name:
            PARTS[part](table, Path(name))
    if args.write:
        write(table, args.write)


if __name__ == "__main__":
    main()
