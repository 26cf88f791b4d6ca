"""BOLT after the link: what it makes of a program runs, and `verify` says what is left of the layout.

BOLT leaves the old text where it was and puts its own into a segment behind everything else.  That begins on a window,
hot code first; it is not padded, and so `verify` finds its tail.  docs/measured/links.md shows what was seen.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import HUGEALIGN, LLVM, PAGE, Elf, Toolchain, run

FUNCTIONS = 2000
LINKERS = ("gcc-bfd", "gcc-lld19", "gcc-mold", "gcc-gold")
#: By its full path: there it finds the library that instrumented programs need.
BOLT = Path(LLVM["lld19"]) / "llvm-bolt"
USUAL = "-reorder-functions=hfsort -reorder-blocks=ext-tsp -split-functions"
#: BOLT's options, whether its hot code then lies in whole windows, and the rules that `verify` finds broken.
OPTIONS = {
    USUAL: (True, {"HA004", "HA007", "HA009"}),
    f"{USUAL} -align-text=0x200000": (True, {"HA004", "HA007", "HA009"}),
    f"{USUAL} -hugify": (True, {"HA004", "HA007", "HA009"}),
    f"{USUAL} -no-huge-pages": (False, {"HA003", "HA004", "HA007", "HA009"}),
}
#: Functions of which a caller takes only the short way; the long one is cold, for -split-functions.
CODE = f"""
    .altmacro
    .macro function n
    .text
    .p2align 4
    .type f\\n, @function
f\\n:
    .cfi_startproc
    mov $\\n, %eax
    cmp $-1, %edi
    jne 1f
    .rept 300
    add $\\n, %eax
    .endr
1:  ret
    .cfi_endproc
    .size f\\n, . - f\\n
    .section .data.rel.ro, "aw"
    .quad f\\n
    .endm
    .section .data.rel.ro, "aw"
    .globl table
table:
    .set i, 0
    .rept {FUNCTIONS}
    function %i
    .set i, i + 1
    .endr
    .section .note.GNU-stack, "", @progbits
"""
MAIN = f"""
#include <stdio.h>
extern unsigned (*const table[{FUNCTIONS}])(unsigned) __attribute__((visibility("hidden")));
int main(void) {{
    unsigned sum = 0;
    for (unsigned round = 0; round < 30; round++)
        for (unsigned i = 0; i < {FUNCTIONS}; i += 1 + round % 3)
            sum += table[i](sum % 1000);
    printf("%u\\n", sum);
    return 0;
}}
"""
Profiled = Callable[[str], tuple[Path, Path]]

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.skipif(not BOLT.exists(), reason="bolt-19 is not installed"),
]


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory, toolchains: dict[str, Toolchain]) -> Profiled:
    """A function that links the program, once per linker, and returns it and its profile."""
    directory = tmp_path_factory.mktemp("bolt")
    (directory / "code.s").write_text(CODE)
    (directory / "main.c").write_text(MAIN)
    run("gcc", "-c", "code.s", cwd=directory, check=True)
    run("gcc", "-O2", "-fPIE", "-c", "main.c", cwd=directory, check=True)

    def make(name: str) -> tuple[Path, Path]:
        toolchain = toolchains[name].needed()
        program, profile = directory / name, directory / f"{name}.fdata"
        if not program.exists():
            words = (toolchain.cc, *toolchain.flags, "-Wl,--emit-relocs", "main.o", "code.o", "-o", program)
            run(HUGEALIGN, *words, cwd=directory, check=True)
            assert run(HUGEALIGN, "verify", program).returncode == 0
        if not profile.exists():
            words = ("-instrument", f"-instrumentation-file={profile}", "-o", directory / "instrumented")
            done = run(BOLT, program, *words)
            if toolchain.linker == "mold" and "PLT section .plt at offset 0x10" in done.stderr:
                # In the middle of an instruction: an offset in it decides, and so do the addresses.
                pytest.skip("BOLT 19 reads mold's PLT header of 32 bytes as two entries; sometimes that is no code")
            assert done.returncode == 0, done.stderr
            run(directory / "instrumented", check=True)
        return program, profile

    return make


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: options.removeprefix(USUAL).strip() or "usual")
@pytest.mark.parametrize("name", LINKERS)
def test_program(
    name: str, options: str, profiled: Profiled, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    hot_is_whole, rules = OPTIONS[options]
    program, profile = profiled(name)
    output = tmp_path / "out"
    run(BOLT, program, "-data", profile, *options.split(), "-o", output, check=True)
    expected, seen = run(program, check=True), run(output)
    assert (seen.returncode, seen.stdout) == (0, expected.stdout)
    elf = Elf(output)
    hot = elf.sections[".text"]
    assert elf.sections[".bolt.org.text"]["sh_addr"] != hot["sh_addr"]
    window = hot["sh_addr"] // PAGE * PAGE
    whole = any(
        text["p_vaddr"] % PAGE == text["p_offset"] % PAGE
        and text["p_vaddr"] <= window
        and hot["sh_addr"] + hot["sh_size"] <= text["p_vaddr"] + text["p_filesz"] // PAGE * PAGE
        for text in elf.text
        if text["p_align"] >= PAGE
    )
    assert whole == hot_is_whole
    done = run(HUGEALIGN, "verify", "--json", output)
    (report,) = json.loads(done.stdout)["files"]
    assert done.returncode == 1
    assert {diagnosis["code"] for diagnosis in report["diagnoses"]} == rules
    share = 100 * report["coverage"]["huge_bytes"] / report["coverage"]["text_bytes"]
    # Where it is whole otherwise, the fixed file has no tail, and no second text with ends of its own.
    fixed = tmp_path / "fixed"
    run(HUGEALIGN, "fix", "-o", fixed, output, check=True)
    assert run(fixed, check=True).stdout == expected.stdout
    if qemu := shutil.which("qemu-x86_64"):  # which finds program headers as Linux before 5.18 does
        assert run(qemu, fixed, check=True).stdout == expected.stdout
    (after,) = json.loads(run(HUGEALIGN, "verify", "--json", fixed).stdout)["files"]
    left = {diagnosis["code"] for diagnosis in after["diagnoses"]}
    assert left == {"HA009"} if hot_is_whole else "HA004" not in left
    run(HUGEALIGN, "fix", "--undo", "-o", tmp_path / "back", fixed, check=True)
    assert (tmp_path / "back").read_bytes() == output.read_bytes()
    record_property("seen", f"{share:.1f} % of the text in whole windows; {', '.join(sorted(rules))}")
