"""Link-time optimisation: each driver's own linker and plugin, partitions, fat objects, ThinLTO with a cache."""

from pathlib import Path

import pytest

from tests.support import HUGEALIGN, SRC, Elf, need, run

FORMS = {
    "gcc": ("g++", "-flto"),
    "gcc-partition-one": ("g++", "-flto", "-flto-partition=one"),
    "gcc-partition-max": ("g++", "-flto", "-flto-partition=max"),
    "gcc-fat": ("g++", "-flto", "-ffat-lto-objects"),
    "gcc-auto": ("g++", "-flto=auto"),
    "gcc-gold": ("g++", "-flto", "-fuse-ld=gold"),
    "gcc-mold": ("g++", "-flto", "-fuse-ld=mold"),
    "clang14-full": ("clang++-14", "-flto", "-fuse-ld=lld"),
    "clang14-thin": ("clang++-14", "-flto=thin", "-fuse-ld=lld"),
    "clang19-full": ("clang++-19", "-flto", "-fuse-ld=lld"),
    "clang19-thin": ("clang++-19", "-flto=thin", "-fuse-ld=lld"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", ["-pie", "-static"])
def test_program(form: str, mode: str, bulk: Path, tmp_path: Path) -> None:
    words = FORMS[form]
    need(words[0])
    run(*words, "-O2", "-fPIE", "-c", SRC / "features.cc", "-o", tmp_path / "features.o", check=True)
    link = (*words, "-O2", mode, tmp_path / "features.o", bulk, "-o", tmp_path / "out")
    plain = run(*link)
    if plain.returncode:
        pytest.skip(f"not without hugealign either: {plain.stderr.strip().splitlines()[0]}")
    done = run(HUGEALIGN, *link)
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, plain.stderr)
    assert Elf(tmp_path / "out").faults(exact="gold" not in form) == []
    assert run(tmp_path / "out").returncode == 0


@pytest.mark.parametrize("version", ["14", "19"])
def test_thin_lto_cache(version: str, bulk: Path, tmp_path: Path) -> None:
    """The second link takes its code from the cache, and is laid out as the first."""
    compiler = f"clang-{version}"
    need(compiler)
    words = (compiler, "-flto=thin", "-fuse-ld=lld", f"-Wl,--thinlto-cache-dir={tmp_path / 'cache'}")
    run(*words, "-O2", "-c", SRC / "relro.c", "-o", tmp_path / "main.o", check=True)
    contents = []
    for name in ("first", "second"):
        done = run(HUGEALIGN, *words, tmp_path / "main.o", bulk, "-o", tmp_path / name, check=True)
        assert done.stderr == ""
        assert Elf(tmp_path / name).faults() == []
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]
    assert list((tmp_path / "cache").glob("llvmcache-*"))


def test_code_that_exists_only_after_the_link(tmp_path: Path) -> None:
    """All code is in slim LTO objects: it is counted in the output, not in the inputs."""
    functions = "\n".join(
        f'__attribute__((noinline)) int f{n}(int x) {{ __asm__ volatile (".fill 1000, 1, 0x90"); return x + {n}; }}'
        for n in range(300)
    )
    table = ",".join(f"f{n}" for n in range(300))
    (tmp_path / "many.c").write_text(
        f"{functions}\nint (*volatile table[])(int) = {{{table}}};\n"
        "int main(void) { int s = 0; for (int i = 0; i < 300; i++) s += table[i](i); return s == 7; }\n"
    )
    run("gcc", "-flto", "-O1", "-c", tmp_path / "many.c", "-o", tmp_path / "many.o", check=True)
    run(HUGEALIGN, "gcc", "-flto", "-O1", tmp_path / "many.o", "-o", tmp_path / "out", check=True)
    text = Elf(tmp_path / "out").text[0]
    assert text["p_filesz"] > 256 << 10
    assert Elf(tmp_path / "out").faults() == []
    assert run(tmp_path / "out").returncode == 0
