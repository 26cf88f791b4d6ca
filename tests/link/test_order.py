"""With a profile's order the listed functions lie first, in that order; and nothing else changes."""

import json
import re
import shutil
from pathlib import Path

import pytest

import hugealign
from hugealign import OrderOptions, budget_of
from hugealign.elf.image import read_file
from hugealign.elf.notes import BuildNote, read_notes
from hugealign.orderfile import Entry, OrderFile, write
from tests.link.bulk import MAIN_OF_ANY
from tests.support import HUGEALIGN, LLVM, Elf, Toolchain, environment, need, need_compiler, run

MODES = {"pie": ("-pie",), "no-pie": ("-no-pie",), "static": ("-static",), "shared": ("-shared",)}
#: Functions of one file each: exceptions, COMDAT (inline_), IFUNC, a constructor, two statics of one name.
ALONE = """
#ifdef __clang__
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noipa))
#endif
"""
SOURCES = {
    "one.cc": ALONE
    + """
#include <stdexcept>
#include <cstdio>
#define FUNCTION extern "C" ALONE
inline ALONE int inline_(int x) { return x + 100; }
static ALONE int twice(int x) { return x + 1; }
FUNCTION int unused_one(int x) { return x; }
FUNCTION int alpha(int x) { return twice(x) + inline_(x); }
FUNCTION int thrower(int x) { if (x > 3) throw std::runtime_error("thrown"); return x; }
FUNCTION int beta(int x);
FUNCTION int gamma_(int x) { try { return thrower(x); } catch (const std::exception &) { return beta(x); } }
static int chosen(int x) { return x * 5; }
extern "C" int (*choose(void))(int) { return chosen; }
extern "C" int indirect(int) __attribute__((ifunc("choose")));
static int constructed;
static __attribute__((constructor)) void before(void) { constructed = 7; }
FUNCTION unsigned big_sum(void);
struct Thing { int value; Thing(int x); virtual ~Thing(); };
ALONE Thing::Thing(int x) : value(x) {}
Thing::~Thing() {}
FUNCTION int cold_one(int x) __attribute__((cold));
FUNCTION int cold_one(int x) { return x + 3; }
FUNCTION int work(int x) {
    Thing thing(x);
    return alpha(x) + gamma_(x) + gamma_(9) + beta(x) + indirect(x) + constructed + thing.value + cold_one(x)
        + (big_sum() == 3000u * 2999u / 2u);
}
int main(int argc, char **) { std::printf("%d\\n", work(argc)); return 0; }
""",
    "two.cc": ALONE
    + """
inline ALONE int inline_(int x) { return x + 100; }
static ALONE int twice(int x) { return x * 2; }
extern "C" ALONE int unused_two(int x) { return x; }
extern "C" ALONE int beta(int x) { return twice(x) - inline_(x); }
""",
}
OUTPUT = "-68\n"
#: The order, and what is expected to lie next to each other: entries that are nowhere are left out.
ENTRIES = (
    "gamma_\tsamples=90",
    "nowhere_at_all\tsamples=80",
    "_Z7inline_i\tsamples=70",
    "beta",
    "main\tsamples=5",
    "_ZN5ThingC1Ei",
    "cold_one",
    "_ZL5twicei\tfile=two.cc\tsamples=2",
    "alpha",
    "unused_two\tkind=fill",
    "thrower\tkind=fill",
)
PLACED = (
    "gamma_",
    "_Z7inline_i",
    "beta",
    "main",
    "_ZN5ThingC1Ei",
    "cold_one",
    "_ZL5twicei",
    "alpha",
    "unused_two",
    "thrower",
)
HOT = "alpha"  # the last that is not there to fill room
LOCAL = "_ZL5twicei"  # in another source file, too


@pytest.fixture(scope="session")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An order file."""
    path = tmp_path_factory.mktemp("profile") / "server.order"
    path.write_text("\n".join(("# hugealign.order/1", "# windows: 1", "", *ENTRIES, "")))
    return path


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory, profile: Path) -> dict[str, list[Path]]:
    """The sources, compiled by hugealign with nothing but the profile, by compiler; those that are installed."""
    made = {}
    for compiler in ("g++", "clang++-14", "clang++-19"):
        if shutil.which(compiler):
            directory = tmp_path_factory.mktemp(compiler)
            for name, text in SOURCES.items():
                (directory / name).write_text(text)
                words = ("-O2", "-fPIC", "-c", name, "-o", f"{name}.o")
                run(HUGEALIGN, f"--profile={profile}", compiler, *words, cwd=directory, check=True)
            made[compiler] = [directory / f"{name}.o" for name in SOURCES]
    return made


def symbols(path: Path) -> dict[str, list[int]]:
    """The addresses of each function of *path*."""
    result: dict[str, list[int]] = {}
    for line in run("nm", "-n", path, check=True).stdout.splitlines():
        address, kind, name = line.rjust(18).split(" ", 2) if line[0] != " " else ("", "U", "")
        if kind in "tTwWi":
            result.setdefault(name, []).append(int(address, 16))
    return result


def lies_first(path: Path, names: tuple[str, ...], room: int, together: bool = True) -> None:
    """Check that *names* lie in that order, with no other function among them, within *room* of the text's start."""
    result = symbols(path)
    # Of a static that several files have, the one in its place counts.
    places: list[int] = []
    for name in names:
        places.append(min((at for at in result[name] if not places or at > places[-1]), default=0))
    assert places == sorted(places), {name: result[name] for name in names}
    start, end = places[0], places[-1]
    among = {name for name, at in result.items() if any(start <= a <= end for a in at)} - set(names)
    if together:
        assert {name for name in among if not name.startswith(("__hugealign", "_ZN5Thing", "__preinit_array"))} == set()
    assert start - Elf(path).text[0]["p_vaddr"] <= room


def note_of(path: Path) -> BuildNote | None:
    with path.open("rb") as stream:
        return read_notes(stream.fileno(), read_file(str(path))).build


@pytest.mark.parametrize("mode", MODES)
def test_listed_functions_lie_first(
    mode: str, toolchain: Toolchain, objects: dict[str, list[Path]], profile: Path, bulk: Path, tmp_path: Path
) -> None:
    words = (toolchain.cxx, *toolchain.flags, *MODES[mode], *objects[toolchain.cxx], bulk, "-Wl,--gc-sections")
    if mode == "shared":
        words = (*words, "-Wl,-z,defs")
    ordered, unordered = tmp_path / "ordered", tmp_path / "unordered"
    run(HUGEALIGN, *words, "-o", unordered, check=True)
    done = run(HUGEALIGN, f"--profile={profile}", *words, "-o", ordered)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # libm.a is a script for the linker, so that there is no telling what is among the inputs.
    kept = tuple(name for name in PLACED if name != "unused_two" or name in symbols(ordered))
    exact = toolchain.linker != "gold"
    # .init and .plt may lead; gold's text segment begins with read-only data.
    lies_first(ordered, kept, 4096 if exact else 1 << 20)
    assert Elf(ordered).faults(exact=exact) == []
    note, result = note_of(ordered), symbols(ordered)
    assert note is not None
    assert (note.page_size, note.windows, note.padded, len(note.profile)) == (2 << 20, 1, True, 20)
    assert note.hot_start == result[PLACED[0]][0]
    assert result[HOT][0] < note.hot_end <= result["thrower"][0]
    # Functions of libraries are called from all over, through these: in a huge window too, however few there are.
    stubs = [s for s in read_file(str(ordered)).sections if s.name.startswith(".plt")]
    # mold 2 and newer have them behind what is ordered.
    newer_mold = re.search(rb"mold ([2-9]|\d\d)\.\d+\.\d+ \(compatible", Elf(ordered).data)
    assert newer_mold or all(s.sh_addr + s.sh_size <= note.hot_start for s in stubs)
    assert stubs or mode == "static"
    if mode != "shared":
        assert run(ordered).stdout == run(unordered).stdout == OUTPUT
    checked = run(HUGEALIGN, "verify", ordered)
    assert checked.returncode == 0
    assert "HA017" not in checked.stdout
    assert exact <= ("HA018" not in checked.stdout)


@pytest.mark.parametrize("name", ["clang14-lld14", "clang19-lld19"])
def test_stubs_for_indirect_branch_tracking(
    name: str,
    toolchains: dict[str, Toolchain],
    objects: dict[str, list[Path]],
    profile: Path,
    bulk: Path,
    tmp_path: Path,
) -> None:
    """Calls then go through `.plt.sec`; LLD says of each object that it was not compiled for it."""
    toolchain = toolchains[name].needed()
    words = (toolchain.cxx, *toolchain.flags, "-Wl,-z,force-ibt", *objects[toolchain.cxx], bulk, "-o", tmp_path / "out")
    run(HUGEALIGN, f"--profile={profile}", *words, check=True)
    stubs = [s for s in read_file(str(tmp_path / "out")).sections if s.name.startswith(".plt")]
    note = note_of(tmp_path / "out")
    assert note is not None
    assert [s.name for s in stubs] == [".plt", ".plt.sec"]
    assert all(s.sh_addr + s.sh_size <= note.hot_start for s in stubs)
    assert run(tmp_path / "out").stdout == OUTPUT


@pytest.mark.parametrize("name", ["gcc-bfd", "clang19-lld19", "clang19-bfd", "gcc-gold", "gcc-mold", "clang19-mold"])
def test_local_of_the_named_file(
    name: str,
    toolchains: dict[str, Toolchain],
    objects: dict[str, list[Path]],
    profile: Path,
    bulk: Path,
    tmp_path: Path,
) -> None:
    """Of two statics of one name GNU ld, mold and lld place the one from two.cc; gold places both."""
    toolchain = toolchains[name].needed()
    words = (toolchain.cxx, *toolchain.flags, *objects[toolchain.cxx], bulk, "-o", tmp_path / "out")
    run(HUGEALIGN, f"--profile={profile}", *words, check=True)
    result = symbols(tmp_path / "out")
    end = result[HOT][0]
    inside = [at for at in result[LOCAL] if at < end]
    by_file = toolchain.linker != "gold"
    assert len(inside) == (1 if by_file else 2)
    if by_file:  # x * 2 and not x + 1
        code = run("objdump", "-d", f"--start-address={inside[0]}", f"--stop-address={inside[0] + 3}", tmp_path / "out")
        assert "(%rdi,%rdi,1)" in code.stdout


@pytest.mark.parametrize("name", ["gcc-bfd", "gcc-lld19"])
def test_local_of_a_unit_of_rustc(
    name: str, toolchains: dict[str, Toolchain], objects: dict[str, list[Path]], bulk: Path, tmp_path: Path
) -> None:
    """Its object is also named after the crate; the symbol of the source file says the unit alone."""
    toolchain = toolchains[name].needed()
    units = [tmp_path / f"crate-1f.crate.2e-cgu.{number}.rcgu.o" for number, _ in enumerate(objects["g++"])]
    for path, unit in zip(objects["g++"], units, strict=True):
        shutil.copyfile(path, unit)
    order = tmp_path / "x.order"
    lines = ("# hugealign.order/1", f"{LOCAL}\tfile=crate.2e-cgu.1\tsamples=9", "gamma_\tsamples=1", "")
    order.write_text("\n".join(lines))
    words = (toolchain.cxx, *toolchain.flags, *units, bulk, "-o", tmp_path / "out")
    run(HUGEALIGN, f"--profile={order}", *words, check=True)
    result = symbols(tmp_path / "out")
    assert [at < result["gamma_"][0] for at in result[LOCAL]] == [True, False]


@pytest.mark.parametrize("name", ["gcc-lld14", "gcc-lld19", "gcc-gold", "gcc-mold"])
def test_identical_code_folding(
    name: str,
    toolchains: dict[str, Toolchain],
    objects: dict[str, list[Path]],
    profile: Path,
    bulk: Path,
    tmp_path: Path,
) -> None:
    toolchain = toolchains[name].needed()
    words = (*toolchain.flags, "-Wl,--icf=all,--gc-sections", *objects["g++"], bulk, "-o", tmp_path / "out")
    run(HUGEALIGN, f"--profile={profile}", "g++", *words, check=True)
    note, result = note_of(tmp_path / "out"), symbols(tmp_path / "out")
    assert note is not None
    assert note.hot_start == result[PLACED[0]][0]
    assert result[HOT][0] < note.hot_end <= result["thrower"][0]
    assert run(tmp_path / "out").stdout == OUTPUT


def test_members_of_archives(objects: dict[str, list[Path]], profile: Path, bulk: Path, tmp_path: Path) -> None:
    run("ar", "rc", tmp_path / "libtwo.a", objects["g++"][1], check=True)
    words = (objects["g++"][0], tmp_path / "libtwo.a", bulk, "-o", tmp_path / "out")
    run(HUGEALIGN, f"--profile={profile}", "g++", *words, check=True)
    lies_first(tmp_path / "out", PLACED, 4096)
    assert len(symbols(tmp_path / "out")["_ZL5twicei"]) == 2


def test_twice_the_same(objects: dict[str, list[Path]], profile: Path, bulk: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        run(HUGEALIGN, f"--profile={profile}", "g++", *objects["g++"], bulk, "-o", tmp_path / name, check=True)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


LTO: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "gcc": ("g++", "-flto", ()),
    "gcc-partition-max": ("g++", "-flto", ("-flto-partition=max",)),
    "gcc-partition-one": ("g++", "-flto", ("-flto-partition=one",)),
    "gcc-gold": ("g++", "-flto", ("-fuse-ld=gold",)),
    "clang14-full": ("clang++-14", "-flto", ("-fuse-ld=lld",)),
    "clang19-full": ("clang++-19", "-flto", ("-fuse-ld=lld",)),
    "clang19-thin": ("clang++-19", "-flto=thin", ("-fuse-ld=lld",)),
}


@pytest.mark.parametrize("form", LTO)
def test_link_time_optimisation(form: str, profile: Path, bulk: Path, tmp_path: Path) -> None:
    compiler, flag, more = LTO[form]
    need_compiler(compiler, *more)
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text)
        words = (compiler, "-O1", flag, "-c", name, "-o", f"{name}.o")
        run(HUGEALIGN, f"--profile={profile}", *words, cwd=tmp_path, check=True)
    link = (compiler, "-O1", flag, *more, "one.cc.o", "two.cc.o", bulk, "-o", "out")
    done = run(HUGEALIGN, f"--profile={profile}", *link, cwd=tmp_path, check=True)
    assert "hugealign" not in done.stderr
    assert run(tmp_path / "out").stdout == OUTPUT
    result = symbols(tmp_path / "out")
    kept = [name for name in ("gamma_", "beta", "main", "alpha", "thrower") if name in result]
    assert len(kept) >= 4
    places = [result[name][0] for name in kept]
    assert places == sorted(places)
    assert places[0] - Elf(tmp_path / "out").text[0]["p_vaddr"] <= (1 << 20 if "gold" in form else 4096)


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("-fuse-ld=lld", f"-B{LLVM['lld14']}"),
        ("-fuse-ld=lld", f"-B{LLVM['lld19']}"),
        ("-fuse-ld=gold",),
        ("-fuse-ld=mold",),
    ],
)
def test_aarch64(flags: tuple[str, ...], tmp_path: Path) -> None:
    compiler = "aarch64-linux-gnu-gcc"
    need_compiler(compiler, *flags)
    names = [f"f{n}" for n in range(300)]
    order = tmp_path / "f.order"
    wanted = ["f200", "main", "f3", "f100"]
    order.write_text("\n".join(("# hugealign.order/1", *wanted, "")))
    code = "".join(f"int {name}(int x) {{ return x + {n}; }}\n" for n, name in enumerate(names))
    (tmp_path / "f.c").write_text(f"{code}int main(void) {{ return f3(39); }}\n")
    run(HUGEALIGN, f"--profile={order}", compiler, "-c", "f.c", cwd=tmp_path, check=True)
    words = (compiler, *flags, "-fno-inline", "f.o", "-o", "out")
    done = run(HUGEALIGN, f"--profile={order}", *words, cwd=tmp_path, HUGEALIGN_MIN_TEXT="0")
    assert (done.returncode, done.stderr) == (0, "")
    result = symbols(tmp_path / "out")
    places = [result[name][0] for name in wanted]
    assert places == sorted(places)
    assert max(places) < min(at for name in names if name not in wanted for at in result[name])
    note = note_of(tmp_path / "out")
    assert note is not None
    assert note.hot_start == places[0]
    if shutil.which("qemu-aarch64"):
        assert run("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", tmp_path / "out").returncode == 42


HOSTILE = (
    *("sp ace", "br{ace}", "semi;colon", "pa(ren)", "sl/ash", "com,ma", "ba!ng", "eq=ual", "star*", "que?stion"),
    *("set[a-z]", "a-b+c", "hash#x", "#comment", "ünï", "tilde~", "lt<gt>", "q'q", "col:on", "amp&|"),
    *("$(touch hacked)", "*", "INSERT", "KEEP"),
)
#: A linker would take these for something else than a name, so they stay where they are.
LEFT_OUT = {
    "bfd": {"star*", "que?stion", "set[a-z]", "*"},
    "lld": {"#comment"},
    "gold": {"star*", "que?stion", "set[a-z]", "*", "sp ace", "$(touch hacked)"},
}


@pytest.mark.parametrize("name", ["gcc-bfd", "gcc-lld14", "gcc-lld19", "gcc-gold"])
def test_hostile_names(name: str, toolchains: dict[str, Toolchain], bulk: Path, tmp_path: Path) -> None:
    """Names that mean something to scripts, shells or patterns are placed as they are, or not at all."""
    toolchain = toolchains[name].needed()
    parts = [
        f'.section ".text.{n}","ax",@progbits\n.globl "{n}"\n.type "{n}",@function\n"{n}": mov $1, %eax\n ret\n'
        for n in ("plain", *HOSTILE, "other")
    ]
    (tmp_path / "names.s").write_text("".join(parts) + '.section .note.GNU-stack,"",@progbits\n')
    (tmp_path / "main.c").write_text(MAIN_OF_ANY)
    made = OrderFile(
        {"note": "hostile"}, [Entry(n) for n in (*reversed(HOSTILE), "\x01bad", "new\nline", 'qu"ote', "plain")]
    )
    (tmp_path / "x.order").write_text(write(made))
    words = (toolchain.cc, *toolchain.flags, "-no-pie", "main.c", "names.s", bulk, "-o", "out")
    done = run(HUGEALIGN, "--profile=x.order", *words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    result = symbols(tmp_path / "out")
    left = LEFT_OUT[toolchain.linker.rstrip("0123456789")]
    places = [result[n][0] for n in (*reversed(HOSTILE), "plain") if n not in left]
    assert places == sorted(places)
    assert all(places[-1] < result[n][0] or result[n][0] < places[0] for n in (*left, "other"))
    assert run(tmp_path / "out").returncode == 0
    assert not (tmp_path / "hacked").exists()


BAD = {
    "missing": None,
    "empty": b"",
    "not an order file": b"gamma_\nbeta\n",
    "binary": bytes(range(256)) * 100,
    "bad kind": b"# hugealign.order/1\nalpha\tkind=lukewarm\n",
    "bad number": b"# hugealign.order/1\n# windows: lots\nalpha\n",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_profile_breaks_no_build(name: str, objects: dict[str, list[Path]], bulk: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad\x1b[31m.order"
    if (data := BAD[name]) is not None:
        path.write_bytes(data)
    words = ("g++", *objects["g++"], bulk, "-o")
    run(HUGEALIGN, *words, tmp_path / "without", check=True)
    done = run(HUGEALIGN, *words, tmp_path / "with", HUGEALIGN_PROFILE=str(path))
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert "linked without an order: " in done.stderr
    assert "; make one: hugealign order " in done.stderr
    assert "\x1b" not in done.stderr
    assert (tmp_path / "with").read_bytes() == (tmp_path / "without").read_bytes()


@pytest.mark.parametrize("name", ["missing", "empty", "not an order file", "binary"])
def test_compiling_with_a_bad_profile(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bad\x1b[31m.order"
    if (data := BAD[name]) is not None:
        path.write_bytes(data)
    (tmp_path / "a.c").write_text("int a(void) { return 1; }\n")
    run("gcc", "-c", "a.c", "-o", "bare.o", cwd=tmp_path, check=True)
    done = run(HUGEALIGN, "gcc", "-c", "a.c", "-o", "a.o", cwd=tmp_path, HUGEALIGN_PROFILE=str(path))
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert "compiled without -ffunction-sections; make one: hugealign order " in done.stderr
    assert "\x1b" not in done.stderr
    assert (tmp_path / "a.o").read_bytes() == (tmp_path / "bare.o").read_bytes()


COMMANDS = {
    "gcc -c a.c": "-ffunction-sections -c a.c",
    "gcc -fno-function-sections -c a.c": "-ffunction-sections -fno-function-sections -c a.c",
    "gcc -S a.c -o a.s": "-ffunction-sections -S a.c -o a.s",
    "gcc -c a.s": "-c a.s",
    "gcc -c a.S": "-ffunction-sections -c a.S",
    "gcc -E a.c": "-E a.c",
    "gcc -M a.c -c": "-M a.c -c",
    "gcc -c -E a.c": "-c -E a.c",
    "gcc --version": "--version",
    "gcc a.c -o a": "-B -ffunction-sections a.c -o a",
    "gcc -Xlinker -E a.o": "-B -ffunction-sections -Xlinker -E a.o",
    "ccache gcc -c a.c": "gcc -ffunction-sections -c a.c",
    "ccache gcc a.o": "gcc -B -ffunction-sections a.o",
    "ccache -s": "-s",
    "nice -n 5 gcc -c a.c": "-n 5 gcc -c a.c",
}


@pytest.mark.parametrize("words", COMMANDS)
def test_what_compilers_are_given(words: str, profile: Path, tmp_path: Path) -> None:
    """A compiler that prints its arguments."""
    for name in ("gcc", "ccache", "nice"):
        (tmp_path / name).write_text('#!/bin/sh\necho "$*"\n')
        (tmp_path / name).chmod(0o755)
    first, *rest = words.split()
    bare = run(HUGEALIGN, tmp_path / first, *rest, check=True).stdout
    given = run(HUGEALIGN, tmp_path / first, *rest, check=True, HUGEALIGN_PROFILE=str(profile)).stdout
    shim = f"-B{HUGEALIGN.parent.parent}/hugealign/libexec/"
    assert given.replace(shim, "-B").strip() == COMMANDS[words]
    assert bare.split() == [word for word in given.split() if word != "-ffunction-sections"]


FORMS = {
    "hugealign before ccache": ("{hugealign} ccache gcc", {}, True),
    "the profile is part of what ccache looks at": ("ccache {hugealign} gcc", {"CCACHE_EXTRAFILES": "{profile}"}, True),
    "ccache is not told (docs/guides/hot-code.md warns of it)": ("ccache {hugealign} gcc", {}, False),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_compiler_cache(form: str, profile: Path, tmp_path: Path) -> None:
    """An object of a build without the profile is not to be taken for one of a build with it."""
    need("ccache")
    (tmp_path / "a.c").write_text("int alpha(int x) { return x; }\n")
    front, settings, right = FORMS[form]
    words = (*front.format(hugealign=HUGEALIGN).split(), "-c", "a.c", "-o", "a.o")
    env = environment(CCACHE_DIR=str(tmp_path / "cache"))
    run(*words, cwd=tmp_path, env=env, check=True)
    env |= {name: value.format(profile=profile) for name, value in settings.items()}
    run(*words, cwd=tmp_path, env=env, check=True, HUGEALIGN_PROFILE=str(profile))
    assert (".text.alpha" in Elf(tmp_path / "a.o").sections) == right


def test_a_relative_profile_holds_in_other_directories(profile: Path, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    shutil.copy(profile, tmp_path / "x.order")
    (tmp_path / "gcc").write_text('#!/bin/sh\necho "$HUGEALIGN_PROFILE"\n')
    (tmp_path / "gcc").chmod(0o755)
    done = run(HUGEALIGN, "--profile=x.order", "--page-size=2M", tmp_path / "gcc", "-c", "a.c", cwd=tmp_path)
    assert done.stdout == f"{tmp_path}/x.order\n"


def in_one_piece(toolchain: Toolchain, directory: Path) -> tuple[object, ...]:
    """The compiler's words for a link of objects that were compiled without -ffunction-sections."""
    toolchain.needed()
    for source, text in SOURCES.items():
        (directory / source).write_text(text)
        run(toolchain.cxx, "-O1", "-fPIC", "-c", source, cwd=directory, check=True)
    return (toolchain.cxx, *toolchain.flags, "one.o", "two.o")


@pytest.mark.parametrize("name", ["gcc-bfd", "clang19-bfd", "gcc-lld19", "gcc-gold", "gcc-mold"])
def test_objects_in_one_piece(
    name: str, toolchains: dict[str, Toolchain], profile: Path, bulk: Path, tmp_path: Path
) -> None:
    """They are counted and named, and placed whole if so asked; lld does so in any case, gold cannot."""
    toolchain = toolchains[name]
    *words, one, two = in_one_piece(toolchain, tmp_path)
    for asked in ("", "1"):
        link = (*words, bulk, one, two, "-o", "out")
        done = run(HUGEALIGN, f"--profile={profile}", *link, cwd=tmp_path, HUGEALIGN_ORDER_OBJECTS=asked)
        assert (done.returncode, done.stdout) == (0, "")
        assert run(tmp_path / "out").stdout == OUTPUT
        result, text = symbols(tmp_path / "out"), Elf(tmp_path / "out").text[0]["p_vaddr"]
        assert Elf(tmp_path / "out").faults(exact=toolchain.linker != "gold") == []
        placed = toolchain.linker == "lld19" or (bool(asked) and toolchain.linker != "gold")
        note = note_of(tmp_path / "out")
        assert note is not None
        assert (note.hot_start <= result["gamma_"][0] < note.hot_end) == placed
        assert (note.hot_start <= result["beta"][0] < note.hot_end) == placed
        if placed:
            assert max(result["gamma_"][0], result["beta"][0]) - text < 8192
            assert done.stderr == ""
            continue
        assert done.stderr.count("\n") == 1
        # Of HOT and those before: not inline_, which is COMDAT; clang gives cold_one a section all the same.
        hot = 7 if toolchain.cc == "gcc" else 6
        assert (
            f"{hot} hot functions not placed, in 2 objects without -ffunction-sections: one.o, two.o; " in done.stderr
        )
        assert "HUGEALIGN_ORDER_OBJECTS=1" in done.stderr


def test_members_of_archives_in_one_piece(
    toolchains: dict[str, Toolchain], profile: Path, bulk: Path, tmp_path: Path
) -> None:
    *words, item, _ = in_one_piece(toolchains["gcc-bfd"], tmp_path)
    run("ar", "rc", "libtwo.a", "two.o", cwd=tmp_path, check=True)
    for name in (("libtwo.a",), ("-L.", "-ltwo")):
        link = (*words, item, bulk, *name, "-o", "out")
        done = run(HUGEALIGN, f"--profile={profile}", *link, cwd=tmp_path)
        assert "one.o, ./libtwo.a(two.o); " in done.stderr or "one.o, libtwo.a(two.o); " in done.stderr
        done = run(HUGEALIGN, f"--profile={profile}", *link, cwd=tmp_path, HUGEALIGN_ORDER_OBJECTS="1")
        assert done.stderr == ""
        result = symbols(tmp_path / "out")
        assert result["beta"][0] < result["bulk0"][0]
        assert run(tmp_path / "out").stdout == OUTPUT


def test_a_piece_whose_path_a_script_cannot_say(
    toolchains: dict[str, Toolchain], profile: Path, bulk: Path, tmp_path: Path
) -> None:
    words = in_one_piece(toolchains["gcc-bfd"], tmp_path)
    (tmp_path / "two.o").rename(tmp_path / "t*o.o")
    words = (*words[:-1], bulk, "t*o.o", "-o", "out")
    done = run(HUGEALIGN, f"--profile={profile}", *words, cwd=tmp_path, HUGEALIGN_ORDER_OBJECTS="1")
    assert (
        "in 1 object without -ffunction-sections: t*o.o; compile with that option, as hugealign does where "
        "HUGEALIGN_PROFILE is set\n" in done.stderr
    )
    assert run(tmp_path / "out").stdout == OUTPUT
    result = symbols(tmp_path / "out")
    assert result["gamma_"][0] < result["bulk0"][0] < result["beta"][0]


def test_fill_in_one_piece_is_no_hot_function(tmp_path: Path) -> None:
    """As the plugin leaves it: sections for what ran alone."""
    (tmp_path / "x.order").write_text("# hugealign.order/1\nran\nmain\tkind=fill\nalso\n")
    (tmp_path / "main.c").write_text("int ran(void); int also(void); int main(void) { return ran() + also(); }\n")
    (tmp_path / "ran.c").write_text("int ran(void) { return 1; }\nint also(void) { return -1; }\n")
    run("gcc", "-c", "main.c", cwd=tmp_path, check=True)
    run("gcc", "-ffunction-sections", "-c", "ran.c", cwd=tmp_path, check=True)
    env = environment(HUGEALIGN_MIN_TEXT="0", HUGEALIGN_PROFILE=str(tmp_path / "x.order"))
    done = run(HUGEALIGN, "gcc", "main.o", "ran.o", "-o", "out", cwd=tmp_path, env=env)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_piece_for_aarch64(tmp_path: Path) -> None:
    compiler = "aarch64-linux-gnu-gcc"
    need(compiler)
    (tmp_path / "x.order").write_text("# hugealign.order/1\nwarm\nmain\n")
    (tmp_path / "cold.c").write_text("int cold_(int x) { return x; }\n")
    (tmp_path / "warm.c").write_text("int warm(int x) { return x + 1; }\nint beside(int x) { return x + 2; }\n")
    (tmp_path / "main.c").write_text("int warm(int x); int main(void) { return warm(41); }\n")
    run(compiler, "-O1", "-c", "cold.c", "warm.c", "main.c", cwd=tmp_path, check=True)
    words = (compiler, "-fuse-ld=lld", f"-B{LLVM['lld19']}", "cold.o", "main.o", "warm.o", "-o", "out")
    env = environment(HUGEALIGN_MIN_TEXT="0", HUGEALIGN_PROFILE=str(tmp_path / "x.order"))
    done = run(HUGEALIGN, *words, cwd=tmp_path, env=env)
    assert "2 hot functions not placed, in 2 objects without -ffunction-sections: main.o, warm.o; " in done.stderr
    done = run(HUGEALIGN, *words, cwd=tmp_path, env=env, HUGEALIGN_ORDER_OBJECTS="1")
    assert (done.returncode, done.stderr) == (0, "")
    result = symbols(tmp_path / "out")
    assert result["warm"] < result["beside"] < result["main"] < result["cold_"]


@pytest.mark.parametrize("name", ["gcc-bfd", "gcc-lld19"])
def test_debug_says_what_is_in_one_piece(
    name: str, toolchains: dict[str, Toolchain], profile: Path, bulk: Path, tmp_path: Path
) -> None:
    words = (*in_one_piece(toolchains[name], tmp_path), bulk, "-o", "out")
    done = run(HUGEALIGN, f"--profile={profile}", *words, cwd=tmp_path, HUGEALIGN_DEBUG="1", check=True)
    assert "objects without -ffunction-sections: one.o" in done.stderr


MOLD = ("-fuse-ld=mold",)


def test_mold_reads_copies(objects: dict[str, list[Path]], profile: Path, bulk: Path, tmp_path: Path) -> None:
    """Of objects and archives' members, also behind a response file; the inputs stay, and reports name them."""
    need("mold")
    one, two = (shutil.copy(path, tmp_path) for path in objects["g++"])
    run("ar", "rc", tmp_path / "lib two.a", bulk, two, check=True)
    inputs = [one, tmp_path / "lib two.a"]
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in map(Path, inputs)]
    (tmp_path / "words").write_text(" ".join(f'"{path}"' for path in inputs))
    for words in (inputs, [f"@{tmp_path / 'words'}"], [f"-Wl,@{tmp_path / 'words'}"]):
        reports = ("-Wl,-Map=out.map", "-Wl,--dependency-file=out.d")
        arguments = (*MOLD, *words, *reports, "-o", "out")
        done = run(HUGEALIGN, f"--profile={profile}", "g++", *arguments, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        lies_first(tmp_path / "out", PLACED, 4096)
        assert run(tmp_path / "out").stdout == OUTPUT
        for report in ("out.map", "out.d"):
            text = (tmp_path / report).read_text()
            assert str(one) in text
    assert [(path.read_bytes(), path.stat().st_mtime_ns) for path in map(Path, inputs)] == before


def test_errors_of_mold_name_the_inputs(profile: Path, bulk: Path, tmp_path: Path) -> None:
    need("mold")
    (tmp_path / "bad.c").write_text(
        "int nowhere(void); int alpha(void) { return nowhere(); } int main(void) { return alpha(); }\n"
    )
    run("gcc", "-ffunction-sections", "-c", "bad.c", cwd=tmp_path, check=True)
    words = ("gcc", *MOLD, "bad.o", bulk, "-o", "out")
    plain, ordered = run(*words, cwd=tmp_path), run(HUGEALIGN, f"--profile={profile}", *words, cwd=tmp_path)
    assert plain.returncode != 0
    assert (ordered.returncode, ordered.stdout, ordered.stderr) == (plain.returncode, plain.stdout, plain.stderr)


def test_mold_cannot_order_what_is_yet_to_be_compiled(profile: Path, bulk: Path, tmp_path: Path) -> None:
    need("mold")
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text)
    words = ("g++", *MOLD, "-flto", *SOURCES, bulk, "-o", "out")
    done = run(HUGEALIGN, f"--profile={profile}", *words, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert "without an order, which mold cannot make of link-time optimisation; use -fuse-ld=lld" in done.stderr
    assert run(tmp_path / "out").stdout == OUTPUT


def test_mold_with_more_functions_than_sections(bulk: Path, tmp_path: Path) -> None:
    """Parts of the order become output sections: those are in order, and what ran lies before what did not."""
    need("mold")
    names = [f"f{n}" for n in range(1000)]
    order = [names[n * 617 % 1000] for n in range(900)]
    lines = [f"{name}\tsamples=1" if n < 640 else f"{name}\tkind=fill" for n, name in enumerate(order)]
    (tmp_path / "x.order").write_text("\n".join(["# hugealign.order/1", *lines, ""]))
    code = "".join(f"int {name}(int x) {{ return x + {n}; }}\n" for n, name in enumerate(names))
    (tmp_path / "f.c").write_text(f"{code}int main(void) {{ return f3(39) - 42; }}\n")
    words = ("gcc", *MOLD, "f.c", bulk, "-o", "out")
    run(HUGEALIGN, "--profile=x.order", *words, cwd=tmp_path, check=True)
    result = symbols(tmp_path / "out")
    places = [result[name][0] for name in order]
    for start in range(0, 640, 10):
        assert max(places[start : start + 10]) < min(places[start + 10 :])
    rest = [result[name][0] for name in names if name not in order]
    assert max(places) < min(rest)
    note = note_of(tmp_path / "out")
    assert note is not None
    assert (note.hot_start, note.hot_end > max(places[:640])) == (min(places), True)
    assert note.hot_end <= min(places[640:])
    assert sum(name.startswith(".Hugealign.") for name in Elf(tmp_path / "out").sections) <= 128
    assert run(tmp_path / "out").returncode == 0


def test_an_order_that_fails_is_left_out(
    objects: dict[str, list[Path]], profile: Path, bulk: Path, tmp_path: Path
) -> None:
    """A linker that refuses a second script, and one that refuses every script."""
    for limit, output in (
        (1, "linked without an order, because with it the linker said: no more scripts"),
        (0, "huge-page"),
    ):
        directory = tmp_path / f"bin{limit}"
        directory.mkdir()
        count = 'n=0; for w; do [ "$w" = -T ] && n=$((n + 1)); done'
        refuse = f"[ $n -le {limit} ] || {{ echo no more scripts >&2; exit 1; }}"
        (directory / "ld.bfd").write_text(f'#!/bin/sh\n{count}\n{refuse}\nexec /usr/bin/ld.bfd "$@"\n')
        (directory / "ld.bfd").chmod(0o755)
        (directory / "ld").symlink_to("ld.bfd")
        words = ("g++", f"-B{directory}", *objects["g++"], bulk, "-o", tmp_path / "out")
        done = run(HUGEALIGN, f"--profile={profile}", *words)
        assert done.returncode == 0
        assert output in done.stderr
        assert run(tmp_path / "out").stdout == OUTPUT
        assert ("hugealign.pad" in "".join(Elf(tmp_path / "out").sections)) == bool(limit)


def test_an_order_of_the_users_own_stays(
    objects: dict[str, list[Path]], profile: Path, bulk: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("alpha\nmain\n")
    flags = ("-fuse-ld=lld", f"-B{LLVM['lld19']}", f"-Wl,--symbol-ordering-file={tmp_path / 'mine'}")
    done = run(
        HUGEALIGN, f"--profile={profile}", "g++", *flags, *objects["g++"], bulk, "-o", tmp_path / "out", check=True
    )
    assert "the command line has one of its own" in done.stderr
    lies_first(tmp_path / "out", ("alpha", "main"), 4096)


@pytest.mark.parametrize("strip", ["", "-Wl,-s"])
def test_the_note_survives_strip(
    strip: str, objects: dict[str, list[Path]], profile: Path, bulk: Path, tmp_path: Path
) -> None:
    words = (*objects["g++"], bulk, "-o", tmp_path / "out")
    run(HUGEALIGN, f"--profile={profile}", "g++", *strip.split(), *words, check=True)
    before = note_of(tmp_path / "out")
    run("strip", tmp_path / "out", check=True)
    assert before is not None
    assert before.hot_start < before.hot_end
    assert note_of(tmp_path / "out") == before


def test_other_programs_of_the_build(tmp_path: Path, profile: Path, bulk: Path) -> None:
    """A program with none of the functions is laid out, and its note promises nothing."""
    (tmp_path / "main.c").write_text(MAIN_OF_ANY)
    run(HUGEALIGN, f"--profile={profile}", "gcc", "-c", "main.c", cwd=tmp_path, check=True)
    (tmp_path / "x.order").write_text("# hugealign.order/1\n# windows: 9\nnot_here\nneither_this\n")
    done = run(HUGEALIGN, "--profile=x.order", "gcc", "main.o", bulk, "-o", "out", cwd=tmp_path, check=True)
    assert done.stderr == ""
    note = note_of(tmp_path / "out")
    assert note is not None
    assert (note.hot_start == note.hot_end, note.windows) == (True, 0)
    assert "warning" not in run(HUGEALIGN, "verify", tmp_path / "out", check=True).stdout


@pytest.mark.parametrize("linker", ["bfd", "lld", "mold"])
def test_verify_says_how_many_functions_were_placed(linker: str, bulk: Path, tmp_path: Path) -> None:
    compiler = ("gcc", f"-fuse-ld={linker}", *([f"-B{LLVM['lld19']}"] if linker == "lld" else []))
    need_compiler(*compiler)
    names = [f"f{number}" for number in range(5)]
    (tmp_path / "main.c").write_text(
        "".join(f"__attribute__((noinline)) int {name}(int x) {{ return x + 1; }}\n" for name in names)
        + "unsigned big_sum(void);\nint main(void) { return !(big_sum() && f0(f1(f2(f3(f4(0)))))); }\n"
    )
    run("gcc", "-O1", "-ffunction-sections", "-c", "main.c", cwd=tmp_path, check=True)
    (tmp_path / "x.order").write_text("# hugealign.order/1\nf3\nf1\nnowhere\nmain\n")
    run(HUGEALIGN, "--profile=x.order", *compiler, "main.o", bulk, "-o", "out", cwd=tmp_path, check=True)
    run("strip", "-o", "bare", "out", cwd=tmp_path, check=True)
    run("gcc", "main.o", bulk, "-o", "plain", cwd=tmp_path, check=True)
    for name, placed, output in (("out", 3, "3 functions placed"), ("bare", None, "no symbols say how many it placed")):
        report = json.loads(run(HUGEALIGN, "verify", "--json", name, cwd=tmp_path, check=True).stdout)
        assert report["files"][0]["order"] == {"hot_functions": 4, "placed_functions": placed}
        text = run(HUGEALIGN, "verify", "-v", name, cwd=tmp_path, check=True).stdout
        assert f"  order of 4 hot functions: {output}\n" in text
        assert "order of" not in run(HUGEALIGN, "verify", name, cwd=tmp_path, check=True).stdout
    report = json.loads(run(HUGEALIGN, "verify", "--json", "plain", cwd=tmp_path).stdout)
    assert "order" not in report["files"][0]


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_an_order_of_this_program_that_places_nothing(linker: str, bulk: Path, tmp_path: Path) -> None:
    """Of a build's other programs it need not have a function."""
    compiler = ("gcc", f"-fuse-ld={linker}", *([f"-B{LLVM['lld19']}"] if linker == "lld" else []))
    need_compiler(*compiler)
    (tmp_path / "main.c").write_text(MAIN_OF_ANY)
    run("gcc", "-c", "main.c", cwd=tmp_path, check=True)
    header = "# hugealign.order/1\n# binary: new\\x20server\n# build-id: --\n"
    (tmp_path / "x.order").write_text(f"{header}not_here\nneither_this\n")
    command = (HUGEALIGN, "--profile=x.order", *compiler, "main.o", bulk, "-o")
    done = run(*command, "new server", cwd=tmp_path, check=True)
    assert done.stderr.count("none of the 2 hot functions of the order was placed") == done.stderr.count("\n") == 1
    assert run(*command, "client", cwd=tmp_path, check=True).stderr == ""
    output = run(*command, "client", cwd=tmp_path, check=True, HUGEALIGN_DEBUG="1").stderr
    assert "order: 0 of 2 hot functions placed" in output


@pytest.mark.parametrize("fill", [False, True])
def test_the_order_that_hugealign_makes(fill: bool, objects: dict[str, list[Path]], bulk: Path, tmp_path: Path) -> None:
    """From a profile of one program to the next link of it: what ran lies first, in the order that was made."""
    words = ("g++", *objects["g++"], bulk, "-o")
    run(HUGEALIGN, *words, tmp_path / "before", check=True)
    (tmp_path / "ran").write_text("main 1\nwork 50\nbeta 40\nalpha 30\nthrower 3\n")
    options = OrderOptions(budget=budget_of(windows=1), fill=fill)
    made = hugealign.order(str(tmp_path / "before"), [str(tmp_path / "ran")], options).file()
    (tmp_path / "x.order").write_text(write(made))
    names = [entry.name for entry in made.entries]
    ran = {"work", "beta", "alpha", "main", "thrower"}
    if not fill:
        assert set(names) == ran
    last = max(names.index(name) for name in ran)
    assert last < 3 * len(ran)  # what they call, and what is near, is among them
    run(HUGEALIGN, f"--profile={tmp_path / 'x.order'}", *words, tmp_path / "after", check=True)
    lies_first(tmp_path / "after", tuple(names[: last + 1]), 4096)
    assert run(tmp_path / "after").stdout == OUTPUT
    assert run(HUGEALIGN, "verify", tmp_path / "after").returncode == 0


@pytest.mark.parametrize("linker", ["bfd", "gold", "mold"])
def test_functions_that_the_compiler_made_one(linker: str, bulk: Path, tmp_path: Path) -> None:
    """GCC's section of them is named after any of them, and the program's symbols may have another first."""
    need(f"ld.{linker}")
    classes = range(12)
    code = [f"struct S{n} {{ virtual int one(int); virtual int two(int); }};\n" for n in classes]
    code += [f"int S{n}::{name}(int x) {{ return x * 7919 + {n}; }}\n" for n in classes for name in ("one", "two")]
    objects = "".join(f"S{n} object{n};\n" for n in classes)
    (tmp_path / "a.cc").write_text("".join(code) + objects + "int main() { return object3.two(0) - 3; }\n")
    run("g++", "-O2", "-ffunction-sections", "-c", "a.cc", cwd=tmp_path, check=True)
    run("g++", "a.o", bulk, "-o", "plain", cwd=tmp_path, check=True)
    (tmp_path / "ran").write_text("".join(f"_ZN{len(f'S{n}')}S{n}3twoEi\n" for n in classes))
    made = hugealign.order(str(tmp_path / "plain"), [str(tmp_path / "ran")], OrderOptions(fill=False)).file()
    (tmp_path / "a.order").write_text(write(made))
    names = tuple(entry.name for entry in made.entries)
    sections = run("readelf", "-SW", "a.o", cwd=tmp_path, check=True).stdout
    elsewhere = [name for name in names if f" .text.{name} " not in sections]
    assert elsewhere, "the program says of none another name first than its section has: this shows nothing"
    flag = f"-fuse-ld={linker}"
    run(HUGEALIGN, "--profile=a.order", "g++", flag, bulk, "a.o", "-o", "out", cwd=tmp_path, check=True)
    result = symbols(tmp_path / "out")
    first = min(result[name][0] for name in names)
    assert [name for name in names if result[name][0] - first > 4096] == []  # but before the bulk
    assert run(tmp_path / "out").returncode == 0
