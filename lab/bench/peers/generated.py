"""A program of many windows, assembled in seconds: modules of functions, and requests that go through some of them.

It imitates large servers as far as an instruction TLB can tell: a request calls some entries of modules, a function
calls others, mostly of its own module, each of them only sometimes; most of a function's bytes do not run.  Requests
are drawn by Zipf's law: few are frequent and most are rare, and another run, with another seed, has other rare ones.
"""

import random
import subprocess
from pathlib import Path

MODULES, OBJECTS = 400, 40
REQUESTS, ENTRIES = 10000, 6
_LEVELS = 6  # a function calls deeper ones only

_DRIVER = """\
#include <signal.h>
#include <stdlib.h>
typedef void (*function)(void);
extern const function table[%(REQUESTS)d][%(ENTRIES)d];
extern const unsigned popularity[%(REQUESTS)d];
static unsigned draw(unsigned long *seed) {
  *seed = *seed * 6364136223846793005ul + 1442695040888963407ul;
  return *seed >> 33;
}
static unsigned run(function f, unsigned state) {
  register unsigned kept __asm__("r12") = state;
  __asm__ volatile("call *%%1" : "+r"(kept) : "r"(f) : "rax", "rcx", "rdx", "cc", "memory");
  return kept;
}
int main(int count, char **words) {
  unsigned long seed = strtoul(words[1], NULL, 10), requests = strtoul(words[2], NULL, 10);
  unsigned state = (unsigned)seed;
  while (requests--) {
    unsigned wanted = draw(&seed) %% popularity[%(REQUESTS)d - 1], low = 0, high = %(REQUESTS)d - 1;
    while (low < high) {
      unsigned middle = (low + high) / 2;
      if (popularity[middle] > wanted) high = middle; else low = middle + 1;
    }
    for (unsigned i = 0; i < %(ENTRIES)d; i++)
      state = run(table[low][i], state ^ draw(&seed));
  }
  if (getenv("STOP_AT_END"))
    raise(SIGSTOP);
  return count == 0 || state == 1;
}
"""


def _function(chance: random.Random, name: str, callees: list[str]) -> list[str]:
    lines = [
        f'.section .text.{name},"ax",@progbits',
        ".p2align 4",
        f".globl {name}",
        f".type {name}, @function",
        f"{name}:",
        "endbr64",
    ]
    for part in range(max(len(callees), 1 + chance.randrange(3))):
        lines += ["imul $1664525, %r12d", f"add ${chance.randrange(1 << 30)}, %r12d"]
        lines += [f".rept {chance.randrange(2, 12)}", "lea 7(%rax,%rax,2), %rax", ".endr"]
        # Code inside the function that runs rarely: a 63rd of the time, or never.
        lines += ["mov %r12d, %ecx", f"shr ${chance.randrange(8, 24)}, %ecx", "and $63, %ecx"]
        lines += [f"cmp ${chance.choice((5, 5, 64, 64, 64))}, %ecx", "jne 1f"]
        lines += [
            f".rept {int(chance.lognormvariate(2.6, 1.0)) + 1}",
            "movabs $0x1122334455667788, %rdx",
            ".endr",
            "1:",
        ]
        if part < len(callees):
            mask = chance.choice((1, 1, 1, 1, 3, 7, 31))
            lines += ["mov %r12d, %ecx", f"shr ${chance.randrange(8, 24)}, %ecx", f"test ${mask}, %cl"]
            lines += ["jne 2f", f"call {callees[part]}@PLT", "2:"]
    return [*lines, "ret", f".size {name}, . - {name}"]


def _modules(chance: random.Random) -> list[list[list[str]]]:
    """Return the functions of each module by level; requests call those of level 0."""
    modules = []
    for module in range(MODULES):
        counts = [chance.randrange(4, 9), *(chance.randrange(8, 20) for _ in range(_LEVELS - 1))]
        levels = [[f"m{module}_{level}_{n}" for n in range(count)] for level, count in enumerate(counts)]
        modules.append(levels)
    return modules


def generate(directory: Path) -> list[str]:
    """Make the objects in *directory* and return their names."""
    directory.mkdir(parents=True, exist_ok=True)
    chance = random.Random(11)
    modules = _modules(chance)
    names = []
    for number in range(OBJECTS):
        lines: list[str] = []
        for module in range(number, MODULES, OBJECTS):
            for level, functions in enumerate(modules[module]):
                for name in functions:
                    lines += _function(chance, name, _callees(chance, modules, module, level))
        lines.append('.section .note.GNU-stack,"",@progbits')
        names.append(f"part{number}")
        (directory / f"part{number}.s").write_text("\n".join(lines) + "\n")
    (directory / "tables.s").write_text(_tables(chance, modules))
    (directory / "driver.c").write_text(_DRIVER % {"REQUESTS": REQUESTS, "ENTRIES": ENTRIES})
    for name in (*names, "tables"):
        subprocess.run(["as", f"{name}.s", "-o", f"{name}.o"], cwd=directory, check=True)
        (directory / f"{name}.s").unlink()
    words = ["gcc", "-O1", "-mno-red-zone", "-ffunction-sections", "-c", "driver.c"]
    subprocess.run(words, cwd=directory, check=True)
    return [*(f"{name}.o" for name in (*names, "tables")), "driver.o"]


def _callees(chance: random.Random, modules: list[list[list[str]]], module: int, level: int) -> list[str]:
    callees = []
    for _ in range(chance.choice((1, 2, 3, 3, 4, 4)) if level + 1 < _LEVELS else 0):
        # Mostly of the same module, else of another; the first ones are used the most, like libraries.
        other = module if chance.random() < 0.75 else int(MODULES * chance.random() ** 3)
        callees.append(chance.choice(modules[other][chance.randrange(level + 1, _LEVELS)]))
    return callees


def _tables(chance: random.Random, modules: list[list[list[str]]]) -> str:
    lines = ['.section .data.rel.ro,"aw"', ".globl table, popularity", ".p2align 3", "table:"]
    for _ in range(REQUESTS):
        first = chance.randrange(MODULES)
        for _ in range(ENTRIES):
            module = first if chance.random() < 0.5 else int(MODULES * chance.random() ** 1.3)
            lines.append(f".quad {chance.choice(modules[module][0])}")
    lines += [".section .rodata", ".p2align 2", "popularity:"]
    total = 0
    for rank in range(REQUESTS):
        total += 1_000_000 // (rank + 10)
        lines.append(f".long {total}")
    return "\n".join([*lines, '.section .note.GNU-stack,"",@progbits']) + "\n"
