"""Links with and without an order of twenty thousand functions and more.

Two programs of that many functions are made up: one of small functions without debug information, where an order
weighs most, and one of functions as compilers make them, with ``-g``.  Their orders are random, the worst case: every
function takes the linker to another object.  A real program, clang, is linked in the order of a profile: only of the
functions that ran, and filled up, as `hugealign order` makes it.

Besides the whole cost of an order, the tables show its cost in the linker alone: the same links by hand, with a layout
in the linker's own words, and with an order in them too.
"""

import os
import random
import subprocess
from functools import partial
from pathlib import Path

import hugealign
from hugealign import OrderOptions, budget_of, orderfile
from hugealign.link.order import dialects
from lab.bench.costs.projects import c_source
from lab.bench.peers.program import WORK
from lab.bench.peers.programs import PROGRAMS
from lab.bench.timing import Table, cost, in_turn
from tests.support import HUGEALIGN, LLVM, ROOT

OBJECTS, FUNCTIONS = 200, 100
LINKERS = ("bfd", "lld", "gold", "mold")


def small_functions(directory: Path) -> list[str]:
    """Assemble OBJECTS of FUNCTIONS of 128 to 512 bytes each; return their names."""
    chance = random.Random(0)
    directory.mkdir()
    names = []
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
        (directory / f"{number}.s").write_text("\n".join(lines) + "\n")
        subprocess.run(["gcc", "-c", f"{number}.s"], cwd=directory, check=True)
    return names


def functions_of_c(directory: Path) -> list[str]:
    """Make OBJECTS of FUNCTIONS of 200 to 400 bytes each, with debug information; return their names.

    One source is compiled, and the result assembled under different names.
    """
    directory.mkdir()
    source = c_source([f"work_NUMBER_{n}" for n in range(FUNCTIONS)], random.Random(0))
    (directory / "unit.c").write_text(source)
    words = ["gcc", "-O1", "-g", "-ffunction-sections", "-S", "unit.c"]
    subprocess.run(words, cwd=directory, check=True)
    text = (directory / "unit.s").read_text()
    for number in range(OBJECTS):
        (directory / f"{number}.s").write_text(text.replace("NUMBER", str(number)))
        subprocess.run(["gcc", "-c", f"{number}.s"], cwd=directory, check=True)
    return [f"work_{number}_{n}" for number in range(OBJECTS) for n in range(FUNCTIONS)]


def many_functions(table: Table, work: Path, rounds: int = 11) -> None:
    """Time all programs with each linker, *rounds* times."""
    for title, directory, make in (
        ("order, small functions", work / "functions", small_functions),
        ("order, C functions, -g", work / "c", functions_of_c),
    ):
        names = make(directory)
        random.Random(1).shuffle(names)
        order = work / "all.order"
        order.write_text("# hugealign.order/1\n# windows: 3\n" + "".join(f"{name}\tsamples=1\n" for name in names))
        (directory / "main.c").write_text("int main(void) { return 0; }\n")
        subprocess.run(["gcc", "-c", "main.c"], cwd=directory, check=True)
        words = ["gcc", "main.o", *(f"{number}.o" for number in range(OBJECTS))]
        for linker in LINKERS:
            compare_orders(table, f"{title}, {linker}", linker, words, directory, order, names, rounds)
    real_program(table, work, rounds)


def real_program(table: Table, work: Path, rounds: int) -> None:
    """Time clang with GNU ld, which takes seconds, and with LLD, if the comparison with the peers has built it."""
    directory = WORK / "clang"
    if not all((directory / name).exists() for name in ("full.counts", "plain.bfd")):
        print("clang: not made (python -m lab.bench.peers --program clang); its links with an order are not timed")
        return
    program = PROGRAMS["clang"]()
    for title, fill in (("what ran", False), ("filled", True)):
        order = work / "clang.order"
        options = OrderOptions(budget=budget_of(windows=8), fill=fill)
        made = hugealign.order(str(directory / "plain.bfd"), [str(directory / "full.counts")], options)
        order.write_text(orderfile.write(made.file()))
        names = [os.fsdecode(name) for name in dialects.parse(order.read_bytes(), str(order)).names]
        words = [program.driver, *program.words]
        for linker, times in (("bfd", (rounds + 1) // 2), ("lld", rounds)):
            compare_orders(
                table, f"clang, {title} ({len(names)}), {linker}", linker, words, directory, order, names, times
            )


def compare_orders(
    table: Table, title: str, linker: str, words: list[str], directory: Path, order: Path, names: list[str], rounds: int
) -> None:
    """Time the link *words* in *directory*, without and with the *order* of *names*: by hugealign, and by hand."""
    layout, ordered = by_hand(linker, names, order)
    words = [*words, f"-fuse-ld={linker}", f"-B{LLVM['lld19']}", "-o", str(order.with_name("ordered"))]
    links = [[str(HUGEALIGN), *words], [str(HUGEALIGN), f"--profile={order}", *words]]
    links += [[words[0], *hand, *words[1:]] for hand in (layout, [*ordered, *layout])] if ordered else []
    costs = in_turn([partial(cost, link, directory) for link in links], rounds)
    for name, without, with_order in zip((title, f"{title}, by hand"), costs[::2], costs[1::2], strict=False):
        table.both(name, without, with_order)


def by_hand(linker: str, names: list[str], order: Path) -> tuple[list[str], list[str]]:
    """Write the *order* of *names* in the words of *linker*, next to it; return the options for layout and for order.

    There are none for gold, which links twice for the layout, and for mold, which has no words for an order.
    """
    layout = ["-Wl,-z,max-page-size=0x200000", "-Wl,-z,separate-code", str(ROOT / "ld-scripts" / "pad-x86_64.o")]
    script = f"-Wl,-T,{ROOT / 'ld-scripts' / linker}-x86_64.ld"
    path = order.with_suffix(f".{linker}")
    if linker == "bfd":
        lines = "".join(f"*(.text.{name})\n" for name in names)
        path.write_text(f"SECTIONS {{ .hugealign.hot : {{\n{lines}}} }}\nINSERT BEFORE .text;\n")
        return [script, *layout], [f"-Wl,-T,{path}"]
    if linker == "lld":
        path.write_text("".join(f"{name}\n" for name in names))
        return [script, *layout], [f"-Wl,--symbol-ordering-file={path},--no-warn-symbol-ordering"]
    return [], []
