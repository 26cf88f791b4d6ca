"""Write a C program with about 5 MiB of text (at -O0): 7 files of 130 functions of straight arithmetic.

The program calls every function, prints ``ready`` and waits to be killed, so that its mappings can be looked at.
It makes the same files every time.
"""

import random
import sys
from pathlib import Path

FILES = 7
FUNCTIONS = 130
STATEMENTS = 48

_STATEMENT = (
    "  a += b * {m}u; b ^= c >> {s}; c -= d + {n}u; d = sink[(a ^ {i}) & 63] + a; if (d & {bit}u) sink[{i}] = b;\n"
)


def source(number: int) -> str:
    """Return the text of file *number*."""
    choose = random.Random(number)
    parts = ["extern volatile unsigned long sink[64];\n"]
    for function in range(FUNCTIONS):
        parts.append(f"unsigned long f{number}_{function}(unsigned long x) {{\n")
        parts.append("  unsigned long a = x, b = x * 3, c = x ^ 7, d = ~x;\n")
        for i in range(STATEMENTS):
            m, s, n = choose.randrange(3, 1 << 20), choose.randrange(1, 30), choose.randrange(1 << 28)
            parts.append(_STATEMENT.format(m=m, s=s, n=n, i=i, bit=1 << choose.randrange(20)))
        parts.append("  return a ^ b ^ c ^ d;\n}\n")
    return "".join(parts)


def main_source() -> str:
    """Return the text of ``main.c``."""
    names = [f"f{number}_{function}" for number in range(FILES) for function in range(FUNCTIONS)]
    declarations = "".join(f"unsigned long {name}(unsigned long);\n" for name in names)
    table = ",\n  ".join(names)
    return f"""#include <stdio.h>
#include <unistd.h>
volatile unsigned long sink[64];
{declarations}
static unsigned long (*const functions[])(unsigned long) = {{
  {table}
}};
int main(void) {{
  unsigned long x = 1;
  for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++)
    x = functions[i](x);
  printf("ready %lu\\n", x);
  fflush(stdout);
  pause();
  return 0;
}}
"""


def generate(directory: Path) -> list[Path]:
    """Write the files to *directory*, those that are not there yet, and return their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    texts = {"main.c": main_source} | {f"part{i}.c": lambda i=i: source(i) for i in range(FILES)}
    for name, text in texts.items():
        path = directory / name
        if not path.exists():
            path.write_text(text())
    return [directory / name for name in texts]


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
