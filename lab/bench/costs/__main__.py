"""Benchmarks: each pair of commands runs in turn, A B A B …, in one go; medians, differences and ratios are printed.

Run by ``make bench``, which makes every figure in the README's section on cost and in ``docs/measured/peers``; with
``--costs`` only the former.  Not tests: times on a shared machine vary, so nothing here passes or fails.  PostgreSQL's
link and configure are measured where ``make test-postgres`` has built it.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.bench.costs.fix import large_programs
from lab.bench.costs.order import many_functions
from lab.bench.costs.projects import large_program, programs_in_turn
from lab.bench.costs.ps import many_mappings
from lab.bench.costs.stage import starts
from lab.bench.costs.top import many_processes
from lab.bench.costs.verify import many_files
from lab.bench.costs.warm import much_text
from lab.bench.timing import HEADER, alone, compare, show
from lab.bench.trace import tracing
from tests.link.bulk import bulk_object
from tests.support import HUGEALIGN, ROOT

POSTGRES = ROOT / "build" / "postgres"
#: What bash does for a tab after the words of a command line.
TAB = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _hugealign; ((${#COMPREPLY[@]}))'
COMPLETIONS = ROOT / "share" / "bash-completion" / "completions" / "hugealign"


def demo_objects(directory: Path) -> list[str]:
    """Compile the demo's program of 5 MiB of text, with debug information."""
    subprocess.run([sys.executable, ROOT / "examples" / "demo" / "generate.py", directory], check=True)
    sources = sorted(directory.glob("*.c"))
    for source in sources:
        subprocess.run(["gcc", "-g", "-c", source, "-o", source.with_suffix(".o")], check=True)
    return [str(source.with_suffix(".o")) for source in sources]


def postgres_link() -> tuple[list[str], Path] | None:
    """Return the command that links the plain build's server, and its directory, if it is built."""
    directory = POSTGRES / "trees" / "plain" / "src" / "backend"
    if not (directory / "postgres").exists():
        return None
    # -W: as if this input had just changed; -n: only print.
    words = ["make", "-n", "-W", "main/main.o", "postgres"]
    lines = subprocess.run(words, cwd=directory, capture_output=True, text=True, check=False).stdout.splitlines()
    line = next((line for line in lines if " -o postgres" in line), None)
    return (shlex.split(line), directory) if line else None


def costs() -> None:
    """Time what hugealign costs."""
    gcc, hugealign_gcc = ["gcc"], [str(HUGEALIGN), "gcc"]
    print(HEADER)
    with tempfile.TemporaryDirectory(prefix="hugealign-bench-") as name:
        work = Path(name)
        (work / "hello.c").write_text('#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n')
        words = ["-c", "hello.c", "-o", "hello.o"]
        compare("compile hello", gcc + words, hugealign_gcc + words, 50, work)
        words = ["hello.o", "-o", "hello"]
        compare("link hello", gcc + words, hugealign_gcc + words, 50, work)
        words = [*demo_objects(work / "demo"), "-o", "demo.out"]
        compare("link 8 objects, 5 MiB text, -g", gcc + words, hugealign_gcc + words, 30, work)
        large = ROOT / "build" / "bench" / "large"
        words = [*large_program(large), "-o", str(work / "large")]
        compare("link C++, 8 MiB text, -g", ["g++", *words], [str(HUGEALIGN), "g++", *words], 15, large)

        many_functions(work)

        show("make -j2, 352 compiles, 32 links", *programs_in_turn(work, 6))

        data = work / "data"
        data.write_bytes(os.urandom(1 << 20) * 295)
        (work / "data.s").write_text(f'.section .rodata\n.incbin "{data}"\n.section .note.GNU-stack,"",@progbits\n')
        bulk = bulk_object(work)
        (work / "big.c").write_text("unsigned big_sum(void); int main(void) { return big_sum() == 0; }")
        subprocess.run([*hugealign_gcc, "big.c", "data.s", str(bulk), "-o", "big"], cwd=work, check=True)
        size = (work / "big").stat().st_size >> 20
        alone(f"verify of {size} MiB", [str(HUGEALIGN), "verify", "big"], 20, work)
        many_files(work)
        alone("help", [str(HUGEALIGN), "help"], 20, work)
        alone("help verify", [str(HUGEALIGN), "help", "verify"], 20, work)
        for typed in ("hugealign ver", "hugealign order --cpu ", "hugealign ps ", "hugealign explain "):
            alone(f"completion: {typed}", ["bash", "-c", TAB, str(COMPLETIONS), *typed.split(" ")], 20, work)
        many_mappings(work)
        many_processes(work)
        much_text(work)
        starts(work)
        large_programs()
        tracing(work)

        result = postgres_link()
        if result is None:
            print("PostgreSQL: not built (make test-postgres); its link and configure are not measured")
            return
        command, directory = result
        command[command.index("-o") + 1] = str(work / "postgres")
        compare("link postgres, 5 MiB text", command, [str(HUGEALIGN), *command], 20, directory)
        source = POSTGRES / "source" / "current" / "configure"
        plain, ours = (
            ["sh", "-c", f'mkdir -p {kind}.out && cd {kind}.out && exec {shlex.quote(str(source))} CC="{cc}"']
            for kind, cc in (("plain", "gcc"), ("ours", "hugealign gcc"))
        )
        compare("PostgreSQL's ./configure", plain, ours, 3, work)


def main() -> None:
    """Run them all."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.costs", description=__doc__)
    parser.add_argument("--costs", action="store_true", help="only the times, not the comparison with the peers")
    args = parser.parse_args()
    costs()
    if not args.costs:
        words = [sys.executable, "-m", "lab.bench.peers", "--write", "docs/measured"]
        subprocess.run(words, cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
