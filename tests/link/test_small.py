"""Small programs stay small; the limits are where the variables say."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.link.bulk import MAIN_OF_ANY, bulk_object
from tests.support import HUGEALIGN, ROOT, Elf, Toolchain, run

HELLO = '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n'


def both(toolchain: Toolchain, tmp_path: Path, *words: object, **settings: Any) -> tuple[bytes, Path]:
    """The plain output's bytes, and the path of the one that hugealign made at the same place."""
    output = tmp_path / "out"
    run(toolchain.cc, *toolchain.flags, *words, "-o", output, check=True)
    plain = output.read_bytes()
    done = run(HUGEALIGN, toolchain.cc, *toolchain.flags, *words, "-o", output, check=True, **settings)
    assert done.stderr == ""
    return plain, output


def test_hello_is_byte_identical(toolchain: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "hello.c").write_text(HELLO)
    run(toolchain.cc, "-c", tmp_path / "hello.c", "-o", tmp_path / "hello.o", check=True)
    plain, output = both(toolchain, tmp_path, tmp_path / "hello.o")
    assert output.read_bytes() == plain


def test_hello_is_laid_out_on_demand(toolchain: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "hello.c").write_text(HELLO)
    run(toolchain.cc, "-c", tmp_path / "hello.c", "-o", tmp_path / "hello.o", check=True)
    _, output = both(toolchain, tmp_path, tmp_path / "hello.o", HUGEALIGN_MIN_TEXT="0")
    assert Elf(output).faults(exact=toolchain.linker != "gold") == []
    assert run(output).stdout == "hello\n"


@pytest.mark.parametrize("in_archive", [False, True], ids=["object", "archive"])
@pytest.mark.parametrize(("functions", "laid_out"), [(60, False), (250, False), (260, True), (2100, True)])
def test_limit_of_256_kib(functions: int, laid_out: bool, in_archive: bool, tmp_path: Path) -> None:
    """The functions are 1 KiB each; whether they come as an object or through -l decides nothing."""
    code = bulk_object(tmp_path, functions)
    main = tmp_path / "main.c"
    main.write_text(
        f"unsigned big_sum(void); int main(void) {{ return big_sum() != {functions * (functions - 1) // 2}; }}"
    )
    run("gcc", "-c", main, "-o", tmp_path / "main.o", check=True)
    words: list[str | Path] = [tmp_path / "main.o", code]
    if in_archive:
        run("ar", "rc", tmp_path / "libbulk.a", code, check=True)
        words = [tmp_path / "main.o", f"-L{tmp_path}", "-lbulk"]
    plain, output = both(Toolchain("gcc-bfd", "gcc", ()), tmp_path, *words)
    assert (output.read_bytes() != plain) == laid_out
    assert (Elf(output).faults() == []) == laid_out
    assert run(output).returncode == 0


def test_an_archive_of_which_little_is_used(tmp_path: Path) -> None:
    """Judged too large before the link; the output is small, and so byte-identical to the plain link."""
    code = bulk_object(tmp_path, 400)
    (tmp_path / "little.c").write_text("int little(void) { return 0; }")
    run("gcc", "-c", tmp_path / "little.c", "-o", tmp_path / "little.o", check=True)
    run("ar", "rc", tmp_path / "libmixed.a", code, tmp_path / "little.o", check=True)
    (tmp_path / "main.c").write_text("int little(void); int main(void) { return little(); }")
    run("gcc", "-c", tmp_path / "main.c", "-o", tmp_path / "main.o", check=True)
    words = [tmp_path / "main.o", f"-L{tmp_path}", "-lmixed"]
    plain, output = both(Toolchain("gcc-bfd", "gcc", ()), tmp_path, *words)
    assert output.read_bytes() == plain


@pytest.mark.parametrize("kind", ["thin archive", "linker script"])
def test_inputs_that_bring_more_than_their_size(kind: str, tmp_path: Path) -> None:
    """A file of some bytes that leads the linker to megabytes of text: Meson's libraries are thin archives."""
    code = bulk_object(tmp_path, 2100)
    (tmp_path / "main.c").write_text(MAIN_OF_ANY)
    run("gcc", "-c", tmp_path / "main.c", "-o", tmp_path / "main.o", check=True)
    small = tmp_path / ("libbulk.a" if kind == "thin archive" else "bulk.t")
    if kind == "thin archive":
        run("ar", "rcT", small, code, check=True)
    else:
        small.write_text(f"INPUT({code})\n")
    _, output = both(Toolchain("gcc-bfd", "gcc", ()), tmp_path, tmp_path / "main.o", small)
    assert Elf(output).faults() == []
    assert run(output).returncode == 0


def test_code_that_link_time_optimisation_makes(tmp_path: Path) -> None:
    """150 KB of objects become 600 KB of text; as many bytes of finished code do not."""
    noise = ",".join(map(str, random.Random(1).randbytes(100_000)))
    (tmp_path / "main.c").write_text(
        f"const unsigned char noise[] = {{{noise}}};\n"
        '__asm__(".text\\n.globl filled\\nfilled: .fill 600000, 1, 0xcc");\n'
        "int main(int argc, char **argv) { return argv[0][0] == noise[argc]; }\n"
    )
    run("gcc", "-O2", "-flto", "-c", tmp_path / "main.c", "-o", tmp_path / "main.o", check=True)
    assert 64 << 10 < (tmp_path / "main.o").stat().st_size < 256 << 10
    _, output = both(Toolchain("gcc-bfd", "gcc", ()), tmp_path, "-O2", "-flto", tmp_path / "main.o")
    assert Elf(output).faults() == []


def test_small_links_start_no_python(tmp_path: Path) -> None:
    """An installation without its Python part, which complains when it is needed: for 256 KiB of inputs and more."""
    for part in ("bin", "hugealign/sh", "hugealign/libexec"):
        shutil.copytree(ROOT / part, tmp_path / part)
    wrapper = tmp_path / "bin" / "hugealign"
    output = tmp_path / "program"
    (tmp_path / "main.c").write_text("int main(void) { return 0; }")
    for noise, python in ((1, False), (200_000, False), (300_000, True)):
        (tmp_path / "noise.s").write_text(f'.data\n.fill {noise}, 1, 7\n.section .note.GNU-stack,"",@progbits\n')
        words = ["-c", tmp_path / "main.c", tmp_path / "noise.s"]
        run(wrapper, "gcc", *words, cwd=tmp_path, check=True)
        for _ in range(2):  # the output of the first link is not an input of the second
            done = run(wrapper, "gcc", "main.o", "noise.o", "-o", output, cwd=tmp_path, check=True)
            assert ("does not load" in done.stderr) == python, noise
            assert run(output).returncode == 0


def test_whole_windows_need_no_pad(tmp_path: Path) -> None:
    """Tail within the threshold: no pad, no further window; beyond it, padded."""
    code = bulk_object(tmp_path, 2048)  # 2 MiB and a little
    (tmp_path / "main.c").write_text(MAIN_OF_ANY)
    run("gcc", "-c", tmp_path / "main.c", "-o", tmp_path / "main.o", check=True)
    _, output = both(Toolchain("gcc-bfd", "gcc", ()), tmp_path, tmp_path / "main.o", code)
    text = Elf(output).text[0]
    assert 0 < text["p_filesz"] - (2 << 20) <= 4096
    assert run(HUGEALIGN, "verify", output).returncode == 0
    assert run(output).returncode == 0
