"""What `hugealign advise` answers, beside simulated misses, for real programs.

Run by ``python -m lab.bench.advice --write docs/measured/advise.md``; some minutes of one core.  Each program runs
natively, again and again, until there are samples enough; and once under QEMU, for `hugealign simulate`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hugealign.errors import HugealignError
from hugealign.process.command_samples import Page, sample_command
from hugealign.watch import advise_verdict as verdict
from hugealign.watch import heat
from hugealign.watch.advise import entries_of
from hugealign.watch.advise_verdict import Judged
from hugealign_lab.record import record
from hugealign_lab.simulation import simulated
from tests.support import ROOT, made_here

CPUS = ("skylake", "zen3")
SAMPLES, RUNS, FREQUENCY = 4000, 60, 3999
LIMIT = 512 << 20  # bytes of a trace
#: Misses for each thousand instructions: below the first huge pages save nothing to speak of, from the second on some
#: per cent of the time, at ten cycles and more each.
_LITTLE, _MUCH = 0.2, 1.0

_PYTHON = "import ast, re, json\nfor i in range(4):\n t = ast.parse(open(re.__file__).read()); ast.unparse(t)\n"
_PHP = "for ($i = 0; $i < 60000; $i++) { $a[] = md5(json_encode([$i, str_repeat('x', $i % 50)])); } sort($a);"
_PERL = (
    "for (1..60000) { $h{md($_)}++ } "
    "sub md { my $x = shift; $x =~ s/(\\d)/<$1>/g; return lc sprintf '%s-%08x', $x, $_ }"
)
_C = "".join(
    f"#include <{name}.h>\n" for name in ("stdio", "stdlib", "string", "math", "pthread", "sys/mman")
) + "".join(
    f"double f{n}(double *a, int n) {{ double s = {n}; for (int i = 0; i < n; i++) "
    f"switch (i % 7) {{ case 0: s += sin(a[i]); break; case {n % 6 + 1}: s -= a[i] * {n}; break; "
    f'default: if (s > {n}) s /= a[i]; }} char t[99]; snprintf(t, sizeof t, "%f", s); return atof(t); }}\n'
    for n in range(60)
)
_CXX = """\
#include <map>
#include <regex>
#include <string>
bool f(const std::string &s) { return std::regex_match(s, std::regex("a.b")); }
int g(std::map<std::string, std::string> &m) { return m["x"].size(); }
"""
_NODE = "let s=0;for(let i=0;i<200000;i++){s+=JSON.stringify({a:i,b:[i]}).length}"


@dataclass(frozen=True)
class Program:
    """A program by its *name*, the words that run it, and the file whose text is laid out, if not the program's own."""

    name: str
    words: tuple[str, ...]
    binary: str = ""


def programs(work: Path) -> list[Program]:
    """Return those that this machine has, with what they work on made in *work*."""
    text = work / "text"
    text.write_bytes(b"".join(path.read_bytes() for path in sorted((ROOT / "hugealign").rglob("*.py"))))
    for name, source in (("work.py", _PYTHON), ("work.pl", _PERL), ("work.php", f"<?php {_PHP}"), ("work.js", _NODE)):
        (work / name).write_text(source, encoding="ascii")
    (work / "sum.awk").write_text("{ n[$1]++; t += length($0) } END { for (w in n) c++; print c, t }\n")
    (work / "loop.sh").write_text('for ((i=0;i<60000;i++)); do s=$((s+i%7)); a[i%50]="$s$i"; done; echo ${a[3]}\n')
    for name, source in (("c", _C), ("cc", _CXX)):
        words = ["gcc", "-E", "-x", "c" if name == "c" else "c++", "-", "-o", str(work / f"bulk.{name}")]
        subprocess.run(words, input=source, text=True, check=True)
    result = (
        Program("gzip", ("gzip", "-c", str(text))),
        Program("xz", ("xz", "-c", "-3", str(text))),
        Program("awk", ("gawk" if shutil.which("gawk") else "mawk", "-f", str(work / "sum.awk"), str(text))),
        Program("bash", ("bash", str(work / "loop.sh"))),
        Program("perl", ("perl", str(work / "work.pl"))),
        Program("Python 3.11", ("/usr/bin/python3", "-I", str(work / "work.py"))),
        Program("PHP 8.2", ("php", str(work / "work.php"))),
        Program("git log", ("git", "-C", str(ROOT), "log", "--stat", "-n60", "--no-color")),
        Program("cc1 -O2", (_cc1("cc1"), "-quiet", "-O2", str(work / "bulk.c"), "-o", "/dev/null")),
        Program("cc1plus -O1", (_cc1("cc1plus"), "-quiet", "-O1", str(work / "bulk.cc"), "-o", "/dev/null")),
        Program("cmake", ("cmake", "--help-full")),
        Program("gdb", ("gdb", "-batch", "-nx", "-ex", "info functions main", "/usr/bin/bash")),
        Program("node", ("node", "--jitless", str(work / "work.js"))),
        Program("readelf", ("readelf", "-sW", "/usr/bin/python3.11")),
    )
    return [program for program in result if shutil.which(program.words[0])]


def _cc1(name: str) -> str:
    words = ["gcc", f"-print-prog-name={name}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def sampled(words: Sequence[str]) -> "Counter[Page]":
    """Run *words* until there are samples enough."""
    pages: Counter[Page] = Counter()
    for _ in range(RUNS):
        pages += sample_command(words, 60, FREQUENCY).pages
        if pages.total() >= SAMPLES:
            break
    return pages


def misses(program: Program, trace: str) -> dict[str, tuple[float, float]]:
    """Return for each processor the misses for a thousand instructions with all text small, and with all of it huge."""
    record(program.words, trace, LIMIT)
    result = simulated(trace, layouts=("all-4k", "all-2m"), cpus=CPUS)
    by = {(row.layout, row.cpu): result.done.mpki(row) for row in result.done.rows}
    return {cpu: (by["all-4k", cpu], by["all-2m", cpu]) for cpu in CPUS}


def truth(small: float) -> str:
    """Return what the simulated misses say."""
    return "yes" if small >= _MUCH else "no" if small < _LITTLE else "maybe"


def row(program: Program, pages: "Counter[Page]", cpu: str, simulation: tuple[float, float]) -> tuple[str, str, str]:
    """Return the line of the table, the answer of the simulation, and that of `advise`."""
    held = entries_of(cpu)
    spread = heat.heat(pages)
    judged: Judged = verdict.judge(pages, spread, held)
    meant = truth(simulation[0])
    answer = judged.answer.value
    wrong = {answer, meant} == {"yes", "no"}
    mark = "" if answer == meant else " **wrong**" if wrong else " (near)"
    numbers = ", ".join(f"{count:,}" for count in spread.pages)
    line = (
        f"| {program.name} | {cpu} | {spread.samples:,} | {numbers} | {spread.windows[-1]} | {judged.small} | "
        f"{100 * spread.unseen.share:.1f} % | {simulation[0]:.2f} | {simulation[1]:.2f} | {meant} | {answer}{mark} |"
    )
    return line, meant, answer


ANSWERS = ("yes", "maybe", "no")
HEAD = """\
# What `advise` says, against simulated misses

Of {all} answers of `hugealign advise`, {wrong} contradict the simulation and {same} match it; in the others one of the
two says maybe.

| simulated | `advise` says yes | maybe | no |
|---|--:|--:|--:|
{matrix}

## How it was made

Written by `python -m lab.bench.advice --write docs/measured/advise.md` ({made}).
The answers are for {cpus}, each program on both. *beyond* is the number in the answer: the share of the
samples on 4 KiB pages beyond the entries of the first-level instruction TLB. The misses are per thousand instructions.
They are from a trace of the same command under QEMU: with all text of the program on small pages, then with all of it
on huge pages (its libraries stay small). From {much} on they mean yes, below {little} no.

<details><summary>All answers</summary>

| program | for | samples | pages with 50, 90, 99 % | windows, 99 % | beyond | unseen | misses, 4 KiB | 2 MiB | \
simulated | advise |
|---|---|--:|--:|--:|--:|--:|--:|--:|---|---|
{lines}

</details>
"""


def page(lines: Sequence[str], answers: "Counter[tuple[str, str]]") -> str:
    """Return the document: the *lines* of the table, and how often each simulated answer met each of `advise`."""
    matrix = (f"| {each} | {' | '.join(str(answers[each, other]) for other in ANSWERS)} |" for each in ANSWERS)
    return HEAD.format(
        all=answers.total(),
        made=made_here(),
        wrong=answers["yes", "no"] + answers["no", "yes"],
        same=sum(answers[each, each] for each in ANSWERS),
        matrix="\n".join(matrix),
        cpus=" and ".join(CPUS),
        much=_MUCH,
        little=_LITTLE,
        lines="\n".join(lines),
    )


def main() -> int:
    """Write the page; status 1 if an answer contradicts the simulation."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.advice", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", type=Path, help="the document")
    parser.add_argument("--only", help="the name of one program")
    args = parser.parse_args()
    lines: list[str] = []
    answers: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory(prefix="hugealign-advice-") as name:
        work = Path(name)
        os.environ["LC_ALL"] = "C"
        with open(os.devnull, "w") as null:
            saved = os.dup(1)
            for program in programs(work):
                if args.only not in (None, program.name):
                    continue
                try:
                    os.dup2(null.fileno(), 1)
                    pages, simulation = sampled(program.words), misses(program, str(work / "trace"))
                except HugealignError as error:
                    print(f"{program.name}: left out: {error}", file=sys.stderr)
                    continue
                finally:
                    os.dup2(saved, 1)
                for cpu in CPUS:
                    line, meant, answer = row(program, pages, cpu, simulation[cpu])
                    lines.append(line)
                    answers[meant, answer] += 1
                    print(line, flush=True)
    if args.write:
        args.write.write_text(page(lines, answers), encoding="utf-8")
    return int(bool(answers["yes", "no"] + answers["no", "yes"]))


if __name__ == "__main__":
    sys.exit(main())
