"""What guards a program is what guards its plain link: stack, RELRO, late binding, control flow, writable text."""

import shutil
from pathlib import Path

import pytest

from tests.link.bulk import bulk_source
from tests.support import HUGEALIGN, MORE_OF_A_LINK, ROOT, Elf, Toolchain, run

START = ".globl _start\n.text\n_start: mov $34, %eax\nsyscall\n"
NOTE = '.section .note.GNU-stack, "", @progbits\n'
#: GNU_PROPERTY_X86_FEATURE_1_AND with IBT, SHSTK, LAM_U48 and LAM_U57.
PROPERTY = """
    .section .note.gnu.property, "a", @note
    .p2align 3
    .long 4, 16, 5
    .asciz "GNU"
    .long 0xc0000002, 4, 15, 0
"""


def assemble(place: Path, name: str, text: str, compiler: str = "gcc") -> Path:
    (place / f"{name}.s").write_text(text)
    run(compiler, "-c", f"{name}.s", cwd=place, check=True)
    return place / f"{name}.o"


def both(toolchain: Toolchain, work: Path, *words: object) -> tuple[Elf, Elf]:
    """Link with and without hugealign; assert the same status, words and guards, and the layout."""
    outcomes = []
    for name, before in (("plain", ()), ("wrapped", (HUGEALIGN,))):
        done = run(*before, toolchain.cc, *toolchain.flags, *words, "-o", work / "out", cwd=work)
        outcomes.append((done.returncode, done.stdout, done.stderr))
        if done.returncode == 0:
            (work / "out").rename(work / name)
    plain, wrapped = outcomes
    assert wrapped == plain
    if plain[0]:
        pytest.skip(f"not without hugealign either: {plain[2].splitlines()[0]:.100}")
    result = Elf(work / "plain"), Elf(work / "wrapped")
    assert result[1].guards() == result[0].guards()
    assert result[1].faults(exact=toolchain.linker != "gold") == []
    return result


@pytest.mark.parametrize("words", [(), ("-Wl,--fatal-warnings",)], ids=["", "fatal-warnings"])
def test_no_object_says_a_word_of_the_stack(words: tuple[str, ...], toolchain: Toolchain, tmp_path: Path) -> None:
    """GNU ld judges objects without the note only if one has it: then our pad must have none."""
    start = assemble(tmp_path, "start", START + ".fill 600000, 1, 0x90\n")
    both(toolchain, tmp_path, "-nostdlib", "-static", *words, start)


@pytest.mark.parametrize("where", ["object", "archive"])
def test_an_object_without_a_word_among_others(where: str, toolchain: Toolchain, bulk: Path, tmp_path: Path) -> None:
    """The stack is executable with GNU ld, as it is without hugealign, and the warning is shown once."""
    silent = assemble(tmp_path, "silent", ".globl silent\n.text\nsilent: ret\n")
    (tmp_path / "main.c").write_text(
        "unsigned big_sum(void); void silent(void); int main(void) { silent(); return big_sum() == 0; }\n"
    )
    if where == "archive":
        run("ar", "rc", tmp_path / "libsilent.a", silent, check=True)
        silent = tmp_path / "libsilent.a"
    both(toolchain, tmp_path, "main.c", bulk, silent)


def test_notes_in_an_archive_alone(toolchain: Toolchain, tmp_path: Path) -> None:
    """Whether a member is linked, and so its note, only the linker knows: the plain link shows it."""
    start = assemble(tmp_path, "start", START + "call used\n.fill 600000, 1, 0x90\n")
    for name in ("used", "unused"):
        assemble(tmp_path, name, f".globl {name}\n.text\n{name}: ret\n" + NOTE * (name == "unused"))
    run("ar", "rc", tmp_path / "lib.a", tmp_path / "used.o", tmp_path / "unused.o", check=True)
    both(toolchain, tmp_path, "-nostdlib", "-static", start, "lib.a")


@pytest.mark.parametrize(
    "options",
    [
        ("-Wl,-z,now",),
        ("-Wl,-z,lazy",),
        ("-Wl,-z,relro,-z,now",),
        ("-Wl,-z,norelro",),
        ("-Wl,-z,execstack",),
        ("-Wl,-z,noexecstack",),
        ("-static",),
        ("-static-pie",),
        ("-no-pie", "-Wl,-z,now"),
        ("-shared", "-Wl,-z,now"),
        ("-shared", "-Wl,-z,nodelete,-z,relro"),
    ],
    ids=" ".join,
)
def test_options_that_guard(
    options: tuple[str, ...], toolchain: Toolchain, main: Path, bulk: Path, tmp_path: Path
) -> None:
    both(toolchain, tmp_path, *options, main, bulk)


@pytest.mark.parametrize("complete", [True, False], ids=["all", "not all"])
def test_control_flow_note(complete: bool, toolchain: Toolchain, tmp_path: Path) -> None:
    """Every feature bit that all inputs claim is left, those that compilers do not use yet included."""
    start = assemble(tmp_path, "start", START + NOTE + PROPERTY)
    bulk = assemble(tmp_path, "bulk", bulk_source() + (PROPERTY if complete else ""))
    # wild leaves out what nothing refers to, if it is not told otherwise
    plain, _ = both(toolchain, tmp_path, "-nostdlib", "-static", "-Wl,--no-gc-sections", start, bulk)
    assert bool(plain.guards()["features"]) == complete or toolchain.linker == "gold"


def test_writable_code_of_the_users_own(toolchain: Toolchain, main: Path, bulk: Path, tmp_path: Path) -> None:
    """It stays what it is without hugealign; `verify` has a rule for it."""
    writable = assemble(tmp_path, "writable", '.section .patched, "awx", @progbits\nret\n' + NOTE)
    words = (toolchain.cc, *toolchain.flags, main, bulk, writable, "-o", tmp_path / "out")
    plain = run(*words)
    guards = Elf(tmp_path / "out").guards()
    done = run(HUGEALIGN, *words)
    assert done.returncode == plain.returncode
    assert Elf(tmp_path / "out").guards() == guards
    assert run(tmp_path / "out").returncode == 0


@pytest.mark.parametrize("name", ["gcc-bfd", "gcc-lld19"])
def test_a_recipe_that_makes_text_writable_is_not_used(
    name: str, toolchains: dict[str, Toolchain], main: Path, bulk: Path, tmp_path: Path
) -> None:
    """Whatever goes wrong with our additions: the plain link takes their place, and one line says so."""
    toolchains[name].needed()
    broken = tmp_path / "broken"
    for part in ("bin", "hugealign", "ld-scripts"):
        shutil.copytree(ROOT / part, broken / part, ignore=shutil.ignore_patterns("__pycache__"))
    for script in (broken / "ld-scripts").glob("*-x86_64.ld"):
        script.write_text(script.read_text().replace("KEEP(*(.hugealign.pad))", "KEEP(*(.hugealign.pad)) *(.data)"))
    output = tmp_path / "out"
    words = (toolchains[name].cc, *toolchains[name].flags, main, bulk, "-o", output)
    done = run(broken / "bin" / "hugealign", *words)
    line = "linked without huge-page layout, because with it its text would be writable" + MORE_OF_A_LINK
    assert (done.returncode, done.stderr) == (0, f"hugealign: warning: {output}: {line}\n")
    assert not Elf(output).guards()["writable and executable"]
    assert run(output).returncode == 0
