"""What `hugealign advise` answers, beside what `hugealign measure` finds, for real programs.

Run by ``python -m lab.bench.advice --write docs/measured/advise.md``, on a quiet machine, some twenty minutes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hugealign.errors import HugealignError
from hugealign.io.units import printable
from hugealign.measuring.interval import Ratio
from hugealign.measuring.measure import MeasureOptions, measure
from hugealign.run.launch import LaunchOptions
from hugealign.system import textcosts
from hugealign.system.saving import WORTH
from hugealign.watch.advise import Advice, advise
from hugealign.watch.advise_verdict import Answer
from tests.support import ROOT, made_here

SECONDS = 20.0  # for each measurement

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
_HELLO = '#include <stdio.h>\nint main(void) { puts("hello"); }\n'
#: 25 MiB of text: from page to page in random order, a few instructions on each.
_WALKS = """\
#include <stdlib.h>
__asm__(".text\\n .p2align 12\\n .globl pages\\n pages: .rept 64 * 6400\\n"
        " .rept 6\\n add $1, %eax\\n .endr\\n ret\\n .p2align 6, 0xcc\\n .endr");
extern char pages[];
int main(int argc, char **argv) {
  static unsigned order[6400];
  for (unsigned at = 0; at < 6400; at++) order[at] = at;
  for (unsigned at = 6399; at; at--) {
    unsigned other = rand() % (at + 1), kept = order[at];
    order[at] = order[other];
    order[other] = kept;
  }
  for (long turn = atol(argv[1]); turn; turn--)
    for (unsigned at = 0; at < 6400; at++) ((void (*)(void))(pages + 4096L * order[at] + 64 * (order[at] % 61)))();
}
"""


@dataclass(frozen=True)
class Program:
    """A program by its *name*, and the words that run it."""

    name: str
    words: tuple[str, ...]


def starts(work: Path) -> Iterator[Program]:
    """Yield programs that do little more than start."""
    (work / "hello.c").write_text(_HELLO, encoding="ascii")
    compiled = ("-c", str(work / "hello.c"), "-o", str(work / "hello.o"))
    yield Program("git --version", ("git", "--version"))
    yield Program("perl -e 0", ("perl", "-e", "0"))
    yield Program("python3 -S -c pass", ("/usr/bin/python3", "-I", "-S", "-c", "pass"))
    yield Program("bash -c :", ("bash", "-c", ":"))
    yield Program("node -e 0", ("node", "-e", "0"))
    yield Program("php -r 0", ("php", "-r", "0;"))
    yield Program("gcc -c hello.c", ("gcc", *compiled))
    (work / "empty.c").write_text("int main(void) { return 0; }\n", encoding="ascii")
    yield Program("cc1 empty.c", (_cc1("cc1"), "-quiet", str(work / "empty.c"), "-o", "/dev/null"))
    yield Program("clang-19 --version", ("clang-19", "--version"))
    yield Program("clang-19 -c hello.c", ("clang-19", *compiled))
    yield Program("ld hello.o", ("ld", "-r", str(work / "hello.o"), "-o", str(work / "linked.o")))
    yield Program("cmake --version", ("cmake", "--version"))
    yield Program("gdb --version", ("gdb", "-nx", "--version"))
    yield Program("java -version", ("java", "-version"))
    yield Program("psql --version", ("psql", "--version"))
    yield Program("qemu --version", ("qemu-system-x86_64", "--version"))


def runs(work: Path) -> Iterator[Program]:
    """Yield programs that run for longer, with what they work on made in *work*."""
    text = work / "text"
    text.write_bytes(b"".join(path.read_bytes() for path in sorted((ROOT / "hugealign").rglob("*.py"))))
    for name, source in (("work.py", _PYTHON), ("work.pl", _PERL), ("work.php", f"<?php {_PHP}"), ("work.js", _NODE)):
        (work / name).write_text(source, encoding="ascii")
    (work / "sum.awk").write_text("{ n[$1]++; t += length($0) } END { for (w in n) c++; print c, t }\n")
    (work / "loop.sh").write_text('for ((i=0;i<60000;i++)); do s=$((s+i%7)); a[i%50]="$s$i"; done; echo ${a[3]}\n')
    (work / "many.sh").write_text(f"for each in $(seq 30); do gcc -c {work}/hello.c -o {work}/hello.o; done\n")
    for name, source in (("c", _C), ("cc", _CXX)):
        words = ["gcc", "-E", "-x", "c" if name == "c" else "c++", "-", "-o", str(work / f"bulk.{name}")]
        subprocess.run(words, input=source, text=True, check=True)
    subprocess.run(["gcc", "-O1", "-xc", "-", "-o", work / "walks"], input=_WALKS, text=True, check=True)
    yield Program("gzip", ("gzip", "-kc", str(text)))
    yield Program("xz", ("xz", "-kc", "-3", str(text)))
    yield Program("awk", ("gawk" if shutil.which("gawk") else "mawk", "-f", str(work / "sum.awk"), str(text)))
    yield Program("bash", ("bash", str(work / "loop.sh")))
    yield Program("perl", ("perl", str(work / "work.pl")))
    yield Program("Python 3.11", ("/usr/bin/python3", "-I", str(work / "work.py")))
    yield Program("PHP 8.2", ("php", str(work / "work.php")))
    yield Program("git log", ("git", "-C", str(ROOT), "log", "--stat", "-n60", "--no-color"))
    yield Program("cc1 -O2", (_cc1("cc1"), "-quiet", "-O2", str(work / "bulk.c"), "-o", "/dev/null"))
    yield Program("cc1plus -O1", (_cc1("cc1plus"), "-quiet", "-O1", str(work / "bulk.cc"), "-o", "/dev/null"))
    yield Program("clang-19 -O1", ("clang-19", "-O1", "-w", "-c", str(work / "bulk.cc"), "-o", "/dev/null"))
    yield Program("30 times gcc -c", ("sh", str(work / "many.sh")))
    yield Program("cmake --help-full", ("cmake", "--help-full"))
    yield Program("gdb, one table", ("gdb", "-batch", "-nx", "-ex", "info functions main", "/usr/bin/bash"))
    yield Program("node", ("node", str(work / "work.js")))
    yield Program("readelf", ("readelf", "-sW", "/usr/bin/python3.11"))
    yield Program("25 MiB, random pages", (str(work / "walks"), "3000"))


def programs(work: Path) -> list[Program]:
    """Return those that this machine has."""
    return [program for program in (*starts(work), *runs(work)) if shutil.which(program.words[0])]


def _cc1(name: str) -> str:
    words = ["gcc", f"-print-prog-name={name}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


@dataclass(frozen=True)
class Held:
    """The *advice* about a program held against its *ratio*: the time on huge pages by that on small ones."""

    program: Program
    advice: Advice
    ratio: Ratio | None
    windows: int = 0

    @property
    def wrong(self) -> bool:
        """Whether a yes saves less than is worth it for certain, or a no more."""
        if self.ratio is None:
            return False
        least, most = 1 - self.ratio.high, 1 - self.ratio.low
        return (self.answer == Answer.YES and most < WORTH) or (self.answer == Answer.NO and least > WORTH)

    @property
    def answer(self) -> Answer:
        """The answer."""
        return self.advice.judged.answer

    @property
    def line(self) -> str:
        """The row of the table."""
        judged, ratio = self.advice.judged, self.ratio
        saving = judged.saving
        promised = (
            f"{100 * saving.value:.1f} | {100 * saving.low:.1f} to {100 * saving.high:.1f}" if saving else "-- | --"
        )
        measured = "no window" if ratio is None else "none shown"
        if ratio is not None:
            number = f"{100 * (1 - ratio.ratio):.1f} ({100 * (1 - ratio.high):.1f} to {100 * (1 - ratio.low):.1f})"
            measured = number if ratio.claim else f"{number}, none shown"
        mark = " **wrong**" if self.wrong else ""
        return f"| {self.program.name} | {self.answer.value}{mark} | {promised} | {measured} | {self.windows} |"


def asked(words: Sequence[str]) -> Advice:
    """Return what `advise` says of a command, whose output is discarded."""
    with open(os.devnull, "w", encoding="ascii") as null:
        standard, kept = os.dup(1), os.dup(2)
        os.dup2(null.fileno(), 1)
        os.dup2(null.fileno(), 2)
        try:
            return advise(words)
        finally:
            os.dup2(standard, 1)
            os.dup2(kept, 2)
            os.close(standard)
            os.close(kept)


def held(program: Program, seconds: float) -> Held:
    """Ask about *program*, and measure it."""
    advice = asked(program.words)
    try:
        options = MeasureOptions(LaunchOptions(fix=True, files=advice.files), seconds=seconds)
        small, huge = measure(program.words, options).sides
    except HugealignError as error:
        print(f"{program.name}: {printable(str(error))}", file=sys.stderr)
        return Held(program, advice, None)
    return Held(program, advice, huge.of_first, huge.huge - small.huge)


HEAD = """\
# What `advise` says, against time

Of {all} answers of `hugealign advise`, {wrong} contradict the measurement: no *yes* should save less than 1 % for
certain, and no *no* more. The answers: {answers}.

## How it was made

Written by `python -m lab.bench.advice --write docs/measured/advise.md` ({made}), at a load of
{load}.
*Promised* is what `advise` says of the command: the most likely per cent of the processor time, and the interval.
*Measured* is what `hugealign measure` finds with the same files on huge pages, from four copies for each side, with its
95 % interval.

What text costs on this machine: {costs}

| program | `advise` | promised, % | from, to | measured, % | windows |
|---|---|--:|---|--:|--:|
"""


def costs() -> str:
    """Return what `textcosts` found here, in a sentence."""
    made = textcosts.of_this_machine()
    walk = (
        f"a walk {made.walk.low:.0f} to {made.walk.high:.0f} ns, from {made.reach:,} pages on"
        if made.walk
        else "no walks"
    )
    huge = f", of a huge page {made.huge_fault.value / 1000:.1f}" if made.huge_fault else ""
    return (
        f"a page fault {made.fault.low / 1000:.1f} to {made.fault.high / 1000:.1f} µs{huge}; a first-level miss at "
        f"most {100 * made.first_share:.1f} % of the time; {walk}."
    )


def main() -> None:
    """Ask and measure, and write the document."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.advice", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", metavar="FILE", type=Path, help="the document")
    parser.add_argument(
        "--for", dest="seconds", metavar="SECONDS", type=float, default=SECONDS, help="for each program"
    )
    parser.add_argument("words", nargs="*", metavar="NAME", help="only programs whose names contain this")
    args = parser.parse_args()
    results, loads = [], []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as work:
        for program in programs(Path(work)):
            if args.words and not any(word in program.name for word in args.words):
                continue
            results.append(held(program, args.seconds))
            loads.append(os.getloadavg()[0])
            print(results[-1].line, flush=True)
    answers = [result.answer.value for result in results]
    fields = {
        "all": len(results),
        "wrong": sum(result.wrong for result in results),
        "answers": ", ".join(f"{answers.count(answer)} {answer}" for answer in Answer if answer.value in answers),
        "made": made_here(),
        "load": f"{min(loads):.1f} to {max(loads):.1f}",
        "costs": costs(),
    }
    text = HEAD.format(**fields) + "".join(f"{result.line}\n" for result in results)
    if args.write:
        args.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
