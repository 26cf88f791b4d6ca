"""A link of twenty thousand functions with and without an order."""

import random
import subprocess
from pathlib import Path

OBJECTS, FUNCTIONS = 200, 100


def many_functions(directory: Path) -> tuple[list[str], Path]:
    """Assemble FUNCTIONS functions in each of OBJECTS, of 128 to 512 bytes; return them, and an order file.

    The order is random, the worst case: it takes a linker from object to object with every function.
    """
    chance = random.Random(0)
    directory.mkdir()
    names, objects = [], []
    for number in range(OBJECTS):
        lines = []
        for name in (f"function_{number}_{n}" for n in range(FUNCTIONS)):
            names.append(name)
            lines += [
                f'.section .text.{name},"ax",@progbits',
                ".p2align 4",
                f".globl {name}",
                f".type {name},@function",
            ]
            lines += [f"{name}:", ".cfi_startproc", f".fill {chance.randrange(128, 512)},1,0x90", "ret", ".cfi_endproc"]
            lines += [f".size {name}, . - {name}"]
        lines.append('.section .note.GNU-stack,"",@progbits')
        source = directory / f"{number}.s"
        source.write_text("\n".join(lines) + "\n")
        objects.append(str(source.with_suffix(".o")))
        subprocess.run(["gcc", "-c", source, "-o", objects[-1]], check=True)
    (directory / "main.c").write_text("int main(void) { return 0; }\n")
    chance.shuffle(names)
    order = directory / "all.order"
    order.write_text("# hugealign.order/1\n# windows: 3\n" + "".join(f"{name}\tsamples=1\n" for name in names))
    return [str(directory / "main.c"), *objects], order
