"""``hugealign clang`` with a profile uses the pass plugin where one was built for that very compiler, and only there.

The result is judged by readelf and pyelftools, and run.
"""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hugealign.orderfile import Entry
from hugealign.wrapper import plugin_list as listed
from tests.build.plugins import Built, order_file
from tests.build.projects import Settings
from tests.link import test_order
from tests.link.test_order import OUTPUT, SOURCES, lies_first, note_of, symbols
from tests.support import HUGEALIGN, LLVM, Elf, need, run

profile = test_order.profile
#: What of its ENTRIES is hot: those that fill room have no sections of their own.
HOT = ("gamma_", "_Z7inline_i", "beta", "main", "_ZN5ThingC1Ei", "cold_one", "_ZL5twicei", "alpha")
LINKERS = ("bfd", "gold", "lld14", "lld19")
ONE = "int cold(int x) { return x + 1; }\nint hot(int x) { return x * 3; }\nint main(void) { return hot(0); }\n"


def linker_words(linker: str) -> tuple[str, ...]:
    return ("-fuse-ld=lld", f"-B{LLVM[linker]}") if linker in LLVM else (f"-fuse-ld={linker}",)


def sections(path: Path) -> set[str]:
    """The names of the sections of code that hold something."""
    return {name for name, s in Elf(path).sections.items() if s["sh_flags"] & 4 and s["sh_size"]}


class Work:
    """A directory with a C source file and an order, and the words for compiling it."""

    def __init__(self, directory: Path, cache: Path) -> None:
        self.directory = directory
        self.settings: Settings = {"XDG_CACHE_HOME": str(cache), "HUGEALIGN_PROFILE": str(directory / "order")}
        (directory / "one.c").write_text(ONE)
        self.order("hot")

    def order(self, *names: str) -> None:
        order_file(self.directory / "order", *(Entry(name) for name in names))

    def compile(self, *words: object, message: str = "", **settings: Any) -> set[str]:
        """Compile one.c and return the sections of code that came out."""
        target = self.directory / "one.o"
        target.unlink(missing_ok=True)
        command = (HUGEALIGN, *words, "-O1", "-c", "one.c", "-o", "one.o")
        done = run(*command, cwd=self.directory, check=True, **(self.settings | settings))
        assert message in done.stderr if message else done.stderr == ""
        return sections(target)


PLUGIN = {".text", ".text.hot.hot"}
FLAG = {".text.cold", ".text.hot", ".text.main"}


@pytest.fixture
def work(tmp_path: Path, cache: Path) -> Work:
    return Work(tmp_path, cache)


# --- what it does ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def objects(built: Built, profile: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The program of the link tests, compiled by hugealign with the profile and the plugin."""
    directory = tmp_path_factory.mktemp(built.clang)
    compiler = built.clang.replace("clang", "clang++")
    for name, text in SOURCES.items():
        (directory / name).write_text(text)
        words = (compiler, "-O2", "-fPIC", "-c", name, "-o", f"{name}.o")
        settings: Settings = {"HUGEALIGN_PROFILE": str(profile), "XDG_CACHE_HOME": str(built.cache)}
        done = run(HUGEALIGN, *words, cwd=directory, check=True, **settings)
        assert done.stderr == ""
    return [directory / f"{name}.o" for name in SOURCES]


@pytest.mark.matrix
def test_objects(objects: list[Path]) -> None:
    """What is not hot lies together, but for the namesake of a hot function; COMDAT groups have their own, as ever."""
    one, two = (sections(path) for path in objects)
    hot = {f".text.hot.{name}" for name in HOT}
    assert {".text", ".text.other._ZL5twicei"} <= one
    assert {name for name in one - hot if not name.startswith((".text._ZN5Thing", ".text.__clang"))} == {
        ".text",
        ".text.other._ZL5twicei",
    }
    assert two == {".text", ".text.hot._Z7inline_i", ".text.hot.beta", ".text.hot._ZL5twicei"}
    assert hot == (one | two) & hot


@pytest.mark.parametrize("linker", [*LINKERS, "mold"])
def test_hot_functions_lie_first(
    linker: str, built: Built, objects: list[Path], profile: Path, bulk: Path, tmp_path: Path
) -> None:
    """In order, in the first window; the program is whole, and does what it does without a profile."""
    words = (built.clang.replace("clang", "clang++"), *linker_words(linker), *objects, bulk, "-o")
    settings: Settings = {"HUGEALIGN_PROFILE": str(profile), "XDG_CACHE_HOME": str(built.cache)}
    run(HUGEALIGN, *words, tmp_path / "plain", check=True)
    done = run(HUGEALIGN, *words, tmp_path / "ordered", **settings)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    exact = linker != "gold"
    lies_first(tmp_path / "ordered", HOT, 4096 if exact else 1 << 20)
    assert Elf(tmp_path / "ordered").faults(exact=exact) == []
    note, result = note_of(tmp_path / "ordered"), symbols(tmp_path / "ordered")
    assert note is not None
    assert note.hot_start == result["gamma_"][0]
    last = max(at for at in result["alpha"])
    assert last < note.hot_end <= last + 64
    # What is there to fill room has stayed where it was, beside what it was compiled with.
    behind = [name for name, at in sorted(result.items(), key=lambda item: item[1]) if at[0] >= note.hot_end]
    assert behind.index("_start") < behind.index("unused_one") == behind.index("thrower") - 1
    assert run(tmp_path / "ordered").stdout == run(tmp_path / "plain").stdout == OUTPUT
    assert run(HUGEALIGN, "verify", tmp_path / "ordered").returncode == 0


@pytest.mark.parametrize("linker", LINKERS)
def test_aarch64(linker: str, newest: Built, tmp_path: Path) -> None:
    driver = "aarch64-linux-gnu-gcc"
    need(driver)
    names = [f"f{n}" for n in range(300)]
    wanted = ["f200", "main", "f3", "f100"]
    order = order_file(tmp_path / "order", *map(Entry, wanted), Entry("f7", kind="fill"))
    settings: Settings = {
        "HUGEALIGN_PROFILE": str(order),
        "XDG_CACHE_HOME": str(newest.cache),
        "HUGEALIGN_MIN_TEXT": "0",
    }
    code = "".join(f"int {name}(int x) {{ return x + {n}; }}\n" for n, name in enumerate(names))
    (tmp_path / "f.c").write_text(f"{code}int main(void) {{ return f3(39); }}\n")
    compile_ = (newest.clang, "--target=aarch64-linux-gnu", "-fno-inline", "-fPIC", "-c", "f.c")
    run(HUGEALIGN, *compile_, cwd=tmp_path, check=True, **settings)
    assert sections(tmp_path / "f.o") == {".text", *(f".text.hot.{name}" for name in wanted)}
    link = (driver, *linker_words(linker), "f.o", "-o", "out")
    done = run(HUGEALIGN, *link, cwd=tmp_path, check=True, **settings)
    assert done.stderr == ""
    result = symbols(tmp_path / "out")
    places = [result[name][0] for name in wanted]
    assert places == sorted(places)
    assert max(places) < min(at for name in names if name not in wanted for at in result[name])
    if shutil.which("qemu-aarch64"):
        assert run("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", tmp_path / "out").returncode == 42


def test_object_size(built: Built, tmp_path: Path) -> None:
    """-ffunction-sections makes an object of small functions twice as large; with the plugin it stays as it is."""
    (tmp_path / "many.c").write_text("".join(f"int f{n}(int x) {{ return x * {n} + 1; }}\n" for n in range(300)))
    order = order_file(tmp_path / "order", *(Entry(f"f{n}") for n in (7, 100, 250)), Entry("f9", kind="fill"))
    settings: Settings = {"HUGEALIGN_PROFILE": str(order), "XDG_CACHE_HOME": str(built.cache)}
    sizes = {}
    for name, changes in (("plain", {"HUGEALIGN_PROFILE": ""}), ("hot", {}), ("all", {"HUGEALIGN_PLUGIN": "0"})):
        words = (built.clang, "-O1", "-c", "many.c", "-o", f"{name}.o")
        run(HUGEALIGN, *words, cwd=tmp_path, check=True, **(settings | changes))
        sizes[name] = (tmp_path / f"{name}.o").stat().st_size
    assert sections(tmp_path / "hot.o") == {".text", ".text.hot.f7", ".text.hot.f100", ".text.hot.f250"}
    assert sizes["plain"] < sizes["hot"] < sizes["plain"] + 3 * 200
    assert sizes["hot"] < 0.6 * sizes["all"]


# --- link-time optimisation --------------------------------------------------------------------------------------

LTO_ONE = """
static __attribute__((noinline)) int helper(volatile int *x) { return *x * 3; }
int other(int x) { return helper(&x) + 1; }
__attribute__((noinline)) int first(int x) { return x - 1; }
__attribute__((noinline)) int second(int x) { return x * 7; }
"""
LTO_TWO = """
int other(int), first(int), second(int);
unsigned big_sum(void);
static __attribute__((noinline)) int helper(volatile int *x) { return *x * 5; }
__attribute__((noinline)) int third(int x) { return x * 11 + first(x) + helper(&x); }
int main(int argc, char **argv) {
    return other(argc) + second(argc) + third(argc) != 27 || big_sum() != 3000u * 2999u / 2u;
}
"""


class Lto:
    """A program of two files, each with a static ``helper``, of which that of one.c is hot."""

    def __init__(self, built: Built, mode: str, bulk: Path, directory: Path) -> None:
        self.directory = directory
        self.mode = mode
        self.bulk = bulk
        self.clang = built.clang
        self.settings: Settings = {"HUGEALIGN_PROFILE": str(directory / "order"), "XDG_CACHE_HOME": str(built.cache)}
        (directory / "one.c").write_text(LTO_ONE)
        (directory / "two.c").write_text(LTO_TWO)

    def compile(self, **settings: Any) -> None:
        for name in ("one", "two"):
            words = (self.clang, "-O2", f"-flto={self.mode}", "-c", f"{name}.c", "-o", f"{name}.o")
            done = run(HUGEALIGN, *words, cwd=self.directory, check=True, **(self.settings | settings))
            assert done.stderr == ""

    def link(self, **settings: Any) -> dict[str, list[int]]:
        """Link with a ThinLTO cache, and return where the functions are."""
        words = (self.clang, f"-flto={self.mode}", "-fuse-ld=lld", "one.o", "two.o", self.bulk, "-o", "out")
        cached = "-Wl,--thinlto-cache-dir=cache"
        done = run(HUGEALIGN, *words, cached, cwd=self.directory, check=True, **(self.settings | settings))
        assert done.stderr == ""
        assert run(self.directory / "out").returncode == 0
        return symbols(self.directory / "out")

    def first(self) -> list[str]:
        """Link, and return the functions between the marks, without the numbers in lld's names, in order."""
        result = self.link()
        lies_first(self.directory / "out", ("__hugealign_hot_start",), 4096, together=False)
        start, end = (result[f"__hugealign_hot_{mark}"][0] for mark in ("start", "end"))
        inside = sorted((at, name) for name, places in result.items() for at in places if start <= at < end)
        return [name.partition(".")[0] for _, name in inside if not name.startswith("__hugealign")]

    def order(self, *names: str) -> list[str]:
        """Write an order of *names*, and return what it calls hot."""
        stems = [name.partition(".")[0] for name in names]
        files = {"helper": "one.c"}
        order_file(
            self.directory / "order", *(Entry(n, file=files.get(s, "")) for n, s in zip(names, stems, strict=True))
        )
        return stems


@pytest.mark.parametrize("mode", ["full", "thin"])
def test_link_time_optimisation(mode: str, newest: Built, bulk: Path, tmp_path: Path) -> None:
    """From the profiled link to the ordered one: lld's own names change, the sections' do not.

    A changed order is in force in the next link, even where ThinLTO's cache has old objects.
    """
    lto = Lto(newest, mode, bulk, tmp_path)
    lto.compile(HUGEALIGN_PROFILE="")
    profiled = lto.link(HUGEALIGN_PROFILE="")
    helper = max(name for name in profiled if re.fullmatch(r"helper([.]llvm[.]\d+)?", name))
    assert (mode == "thin") == (helper != "helper")
    wanted = lto.order("third", helper, "second")
    lto.compile()
    assert lto.first() == wanted
    assert mode == "full" or helper not in symbols(tmp_path / "out")
    wanted = lto.order("second", "first", helper, "third")
    assert lto.first() == wanted  # of a build that does not know that its objects are old
    lto.compile()
    assert lto.first() == wanted


def test_lto_by_an_lld_without_a_plugin(newest: Built, bulk: Path, tmp_path: Path) -> None:
    """Then lld's symbols are ordered, as without the plugin; what ThinLTO has renamed is not found."""
    lto = Lto(newest, "thin", bulk, tmp_path)
    lto.order("third", "second")
    lto.compile()
    lto.settings["HUGEALIGN_PLUGIN"] = "0"
    assert lto.first() == ["third", "second"]


# --- when it is used ---------------------------------------------------------------------------------------------


def test_clang_with_a_plugin_only(built: Built, work: Work) -> None:
    assert work.compile(built.clang) == PLUGIN
    assert work.compile(built.prefix / "bin" / "clang") == PLUGIN
    assert work.compile(built.clang, HUGEALIGN_PROFILE="") == {".text"}
    assert work.compile("gcc") == FLAG
    assert work.compile(built.clang, XDG_CACHE_HOME=str(work.directory)) == FLAG
    assert work.compile(built.clang, XDG_CACHE_HOME="", HOME=str(work.directory)) == FLAG
    assert work.compile(built.clang, HUGEALIGN_PLUGIN="0") == FLAG
    assert work.compile(built.clang, HUGEALIGN_PLUGIN="1") == PLUGIN
    done = run(HUGEALIGN, built.clang, "-c", "one.c", cwd=work.directory, HUGEALIGN_PLUGIN="yes")
    assert (done.returncode, done.stderr) == (125, "hugealign: error: HUGEALIGN_PLUGIN: not 0 or 1\n")


def test_by_any_name_and_any_place(newest: Built, work: Work) -> None:
    """A link to the compiler is that compiler; a script in front of it may be anything."""
    place = work.directory / "a place"
    place.mkdir()
    (place / "mine").symlink_to(newest.prefix / "bin" / "clang")
    (place / "script").write_text(f'#!/bin/sh\nexec {newest.clang} "$@"\n')
    (place / "script").chmod(0o755)
    assert work.compile(place / "mine") == PLUGIN
    assert work.compile("mine", PATH=f"{place}:{os.environ['PATH']}") == PLUGIN
    assert work.compile("script", PATH=f"/nowhere::{place}:{os.environ['PATH']}") == FLAG
    home = work.directory / "home"
    (home / ".cache").mkdir(parents=True)
    (home / ".cache" / "hugealign").symlink_to(newest.cache / "hugealign")
    assert work.compile(newest.clang, XDG_CACHE_HOME="relative", HOME=str(home)) == PLUGIN
    flags = run(HUGEALIGN, "clang-cl", "-###", "-c", "one.c", cwd=work.directory, **work.settings).stderr
    assert "-fpass-plugin" not in flags


def copy_of_cache(cache: Path, target: Path) -> Path:
    """A cache that can be altered, the list's plugins as they are in the other; return its list."""
    directory = target / "hugealign" / "lld-plugin"
    directory.mkdir(parents=True)
    shutil.copy(cache / "hugealign" / "lld-plugin" / "tools", directory / "tools")
    return directory / "tools"


def test_a_plugin_that_is_removed_while_the_compiler_starts(newest: Built, work: Work) -> None:
    """Something in front of the compiler removes it: the compiler loads what hugealign has opened."""
    tools = copy_of_cache(newest.cache, work.directory / "copy")
    lines = [line.split("\t") for line in tools.read_text().splitlines()]
    plugin = tools.parent / "plugin.so"
    shutil.copy(next(line[0] for line in lines if Path(line[1]).samefile(shutil.which(newest.clang) or "")), plugin)
    tools.write_text("".join("\t".join([str(plugin), *line[1:]]) + "\n" for line in lines))
    front = work.directory / "ccache"
    front.write_text(f'#!/bin/sh\n[ "$1" != -k ] || exit 0\nrm -f {plugin}\nexec "$@"\n')
    front.chmod(0o755)
    settings = {"XDG_CACHE_HOME": str(work.directory / "copy")}
    assert work.compile(front, newest.clang, **settings) == PLUGIN
    assert not plugin.exists()
    assert work.compile(front, newest.clang, **settings) == FLAG


def altered_lists(lines: list[list[str]]) -> Iterator[tuple[str, bytes]]:
    """The list as it must not be believed: each with what is wrong."""
    other = {"14": "19", "19": "14"}
    majors = {major: next(line for line in lines if f"llvm-{major}/bin/clang" in line[1]) for major in other}

    def joined(changed: list[list[str]]) -> bytes:
        return "".join("\t".join(line) + "\n" for line in changed).encode()

    yield (
        "the other LLVM's plugin and files",
        joined([[majors[other[m]][0], line[1], *majors[other[m]][2:]] for m, line in majors.items()]),
    )
    sizes = [[*line[:2], re.sub(r"^(\d+):", r"1\1:", line[2]), *line[3:]] for line in lines]
    yield "another size", joined(sizes)
    yield "another time", joined([[*line[:2], f"{line[2]}1", *line[3:]] for line in lines])
    yield "a library less", joined([line[:-1] for line in lines])
    yield "a library that is gone", joined([[*line, "/nowhere/libLLVM.so"] for line in lines])
    yield "a plugin that is gone", joined([[f"{line[0]}.old", *line[1:]] for line in lines])
    yield "cut short", joined(lines)[:150]
    yield "empty", b""
    yield "not text", bytes(range(256)) * 20
    yield (
        "words that mean something to sh",
        joined([["$(touch hacked)", line[1], "*", "`touch hacked`"] for line in lines]),
    )


def test_a_list_that_is_not_right(built: Built, newest: Built, work: Work) -> None:
    """Whatever is wrong with it, no plugin is used and the compiler says nothing."""
    assert built.cache == newest.cache
    place = copy_of_cache(built.cache, work.directory / "cache")
    lines = [line.split("\t") for line in place.read_text().splitlines()]
    if len({line[0] for line in lines}) < 2:
        pytest.skip("there is the plugin of one LLVM only")
    settings: Settings = {"XDG_CACHE_HOME": str(work.directory / "cache")}
    assert work.compile(built.clang, **settings) == PLUGIN
    for wrong, data in altered_lists(lines):
        place.write_bytes(data)
        assert work.compile(built.clang, **settings) == FLAG, wrong
        assert plugins_found(built, settings) is None, wrong
    assert not (work.directory / "hacked").exists()


def plugins_found(built: Built, settings: Settings) -> str | None:
    """What the link's reader of the list says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", settings["XDG_CACHE_HOME"])
        patch.delenv("HUGEALIGN_PLUGIN", raising=False)
        return listed.find(str(built.prefix / "bin" / "clang"))


def test_both_readers_of_the_list_agree(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plugins_found(built, {"XDG_CACHE_HOME": str(built.cache)}) == str(built.plugin)
    monkeypatch.setenv("XDG_CACHE_HOME", str(built.cache))
    monkeypatch.setenv("HUGEALIGN_PLUGIN", "0")
    assert listed.find(str(built.prefix / "bin" / "clang")) is None
    monkeypatch.delenv("HUGEALIGN_PLUGIN")
    lld = listed.find(f"/usr/bin/ld.lld-{built.major}")
    assert lld == (str(built.plugin) if int(built.major) >= 15 else None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_what_others_have_left_there(newest: Built, work: Work) -> None:
    """A list or a plugin of another user is not used, by root least of all."""
    place = copy_of_cache(newest.cache, work.directory / "cache")
    settings: Settings = {"XDG_CACHE_HOME": str(work.directory / "cache")}
    os.chown(place, 65534, 65534)
    assert work.compile(newest.clang, **settings) == FLAG
    assert plugins_found(newest, settings) is None
    os.chown(place, 0, 0)
    theirs = work.directory / "theirs.so"
    shutil.copy(newest.plugin, theirs)
    place.write_text(place.read_text().replace(str(newest.plugin), str(theirs)))
    assert work.compile(newest.clang, **settings) == PLUGIN
    os.chown(theirs, 65534, 65534)
    assert work.compile(newest.clang, **settings) == FLAG
    assert plugins_found(newest, settings) is None


def test_a_compiler_that_is_replaced(built: Built, newest: Built, work: Work) -> None:
    """An upgrade puts another version in the compiler's place: the plugin would crash it, and is not used any more."""
    other = Path(f"/usr/lib/llvm-{'14' if built.major == '19' else '19'}/bin/clang")
    assert newest.cache == built.cache
    (work.directory / "bin").mkdir()
    clang = work.directory / "bin" / "clang"
    shutil.copy2(built.prefix / "bin" / "clang", clang)
    (work.directory / "lib").symlink_to(built.prefix / "lib")
    path = work.directory / "cache" / "hugealign" / "lld-plugin" / listed.NAME
    path.parent.mkdir(parents=True)
    path.write_text(listed.ListedPlugin(str(built.plugin), str(clang), listed.identity([str(clang)]), []).line())
    settings: Settings = {"XDG_CACHE_HOME": str(work.directory / "cache")}
    assert work.compile(clang, **settings) == PLUGIN
    clang.unlink()
    shutil.copy2(other, clang)
    (work.directory / "lib").unlink()
    (work.directory / "lib").symlink_to(other.parent.parent / "lib")
    assert work.compile(clang, **settings) == FLAG
    output = "hugealign: debug: the plugin for this compiler is out of date; run: hugealign plugin build"
    assert work.compile(clang, message=output, HUGEALIGN_DEBUG="1", **settings) == FLAG


def test_list_says_what_is_out_of_date(newest: Built, tmp_path: Path) -> None:
    place = copy_of_cache(newest.cache, tmp_path)
    shutil.copy2(newest.plugin, place.parent)
    settings: Settings = {"XDG_CACHE_HOME": str(tmp_path)}
    place.write_text(place.read_text().replace(str(newest.plugin), str(place.parent / newest.plugin.name)))
    assert f"{place.parent / newest.plugin.name}\n" in run(HUGEALIGN, "plugin", "list", check=True, **settings).stdout
    place.write_text("")
    listed = run(HUGEALIGN, "plugin", "list", check=True, **settings).stdout
    assert f"  out of date; run: hugealign plugin build {newest.prefix}/bin/clang\n" in listed
    repeated = run(HUGEALIGN, "plugin", "build", newest.clang, check=True, **settings).stdout
    assert f"{repeated}" in run(HUGEALIGN, "plugin", "list", check=True, **settings).stdout
    assert [path.name for path in place.parent.iterdir() if path.suffix != ".so"] == ["tools"]


# --- builds that must not break ----------------------------------------------------------------------------------

FORMS = {
    "-v": "-v",
    "-dumpmachine": "-dumpmachine",
    "-E": "-E one.c",
    "-M": "-M one.c",
    "-fsyntax-only": "-fsyntax-only one.c",
    "-S": "-S one.c",
    "-c": "-Weverything -Werror -c one.c",
    "-c, assembly": "-Werror -c code.s",
    "-c, assembly with directives": "-Werror -c code.S",
    "precompiled header": "-Werror -x c-header one.h -o one.h.pch",
    "-c, stdin": "-Werror -x c - -c -o stdin.o",
    "syntax error": "-c bad.c",
    "no such file": "-c absent.c",
    "unknown option": "--no-such-option -c one.c",
    "-save-temps": "-Werror -save-temps -c one.c",
    "link": "-Werror one.c -o program",
    "link of an object": "-Werror plain.o -o program",
    "-r": "-Werror -r plain.o -o r.o",
}


@pytest.mark.parametrize("form", FORMS)
def test_same_as_the_bare_compiler(form: str, built: Built, tmp_path: Path) -> None:
    """With an order that has none of its functions, status and output are the compiler's own."""
    order_file(tmp_path / "order", Entry("nowhere"))
    outcomes = []
    wrapped: Settings = {"HUGEALIGN_PROFILE": str(tmp_path / "order"), "XDG_CACHE_HOME": str(built.cache)}
    for front, settings in (((), Settings()), ((HUGEALIGN,), wrapped)):
        directory = tmp_path / "work"
        directory.mkdir()
        (directory / "one.c").write_text("int main(void) { return 0; }\n")
        (directory / "one.h").write_text("int declared(void);\n")
        (directory / "bad.c").write_text("int main( { return 0; }\n")
        for name in ("code.s", "code.S"):
            (directory / name).write_text(".globl f\nf: ret\n")
        run(built.clang, "-c", "one.c", "-o", "plain.o", cwd=directory, check=True)
        done = run(*front, built.clang, *FORMS[form].split(), cwd=directory, **settings)
        made = sorted(path.name for path in directory.iterdir())
        outcomes.append((done.returncode, done.stdout, re.sub(r"/tmp/[\w.-]+", "", done.stderr), made))
        shutil.rmtree(directory)
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"# hugealign.order/1\nhot\nhot\tkind=warm\n", "line 3: not a line of an order file"),
        (b"hot\n", "is not an order file: the first line is not"),
    ],
)
def test_a_bad_order_is_no_error(data: bytes, message: str, built: Built, work: Work) -> None:
    """One warning, whatever -Werror says, and nothing in it that would move a terminal's cursor."""
    path = work.directory / "bad\x1b[31m.order"
    path.write_bytes(data)
    for words in (("-Werror",), ("-Werror", "-Weverything"), ("-Wall",)):
        command = (HUGEALIGN, built.clang, "-Wno-missing-prototypes", *words, "-c", "one.c", "-o", "one.o")
        done = run(*command, cwd=work.directory, **(work.settings | {"HUGEALIGN_PROFILE": str(path)}))
        assert done.returncode == 0, done.stderr
        assert message in done.stderr
        assert done.stderr.count("warning:") == 1
        assert "\x1b" not in done.stderr
        assert sections(work.directory / "one.o") == {".text"}


def test_a_missing_order_is_no_error(built: Built, work: Work) -> None:
    output = "{}: compiled without -ffunction-sections; make one: hugealign order"
    missing, other = output.format("no such file"), output.format("not an order file")
    assert work.compile(built.clang, "-Werror", message=missing, HUGEALIGN_PROFILE="/nowhere") == {".text"}
    assert work.compile(built.clang, message=other, HUGEALIGN_PROFILE=str(work.directory)) == {".text"}


@pytest.mark.parametrize("linker", LINKERS)
def test_other_programs_of_the_build(linker: str, built: Built, bulk: Path, tmp_path: Path) -> None:
    """Without a hot function, though with a namesake of one, a program is laid out and nothing is said."""
    (tmp_path / "main.c").write_text(
        "unsigned big_sum(void); static __attribute__((noinline)) int same(volatile int *x) { return *x; }\n"
        "int main(int argc, char **argv) { return big_sum() == 0 || same(&argc) != 1; }\n"
    )
    order = order_file(tmp_path / "order", Entry("not_here"), Entry("same", file="other.c"))
    settings: Settings = {"HUGEALIGN_PROFILE": str(order), "XDG_CACHE_HOME": str(built.cache)}
    run(HUGEALIGN, built.clang, "-O1", "-c", "main.c", cwd=tmp_path, check=True, **settings)
    assert sections(tmp_path / "main.o") == {".text", ".text.other.same"}
    run("ar", "rc", "libbig.a", bulk, cwd=tmp_path, check=True)
    words = (built.clang, *linker_words(linker), "main.o", "-L.", "-lbig", "-o", "out")
    done = run(HUGEALIGN, *words, cwd=tmp_path, check=True, **settings)
    assert done.stderr == ""
    assert Elf(tmp_path / "out").faults(exact=linker != "gold") == []
    assert run(tmp_path / "out").returncode == 0


# --- caches and other machines -----------------------------------------------------------------------------------


class Cached:
    """Compiling through ccache."""

    def __init__(self, work: Work) -> None:
        need("ccache")
        self.work = work
        self.settings: Settings = {"CCACHE_DIR": str(work.directory / "ccache")}

    def compile(self, *words: object, hit: bool, **settings: Any) -> set[str]:
        before = self.hits()
        result = self.work.compile(*words, **(self.settings | settings))
        assert self.hits() - before == hit
        return result

    def hits(self) -> int:
        printed = run("ccache", "--print-stats", check=True, **self.settings).stdout
        return sum(int(n) for n in re.findall(r"^(?:direct|preprocessed)_cache_hit\t(\d+)$", printed, re.MULTILINE))


def test_hugealign_before_ccache(newest: Built, work: Work) -> None:
    """Each order compiles anew, and is in the cache the next time."""
    cached = Cached(work)
    words = ("ccache", newest.clang)
    assert cached.compile(*words, hit=False, HUGEALIGN_PROFILE="") == {".text"}
    assert cached.compile(*words, hit=False) == PLUGIN
    assert cached.compile(*words, hit=True) == PLUGIN
    work.order("cold", "main")
    assert cached.compile(*words, hit=False) == {".text", ".text.hot.cold", ".text.hot.main"}
    work.order("hot")
    assert cached.compile(*words, hit=True) == PLUGIN
    assert cached.compile(*words, hit=False, HUGEALIGN_PLUGIN="0") == FLAG
    assert cached.compile(*words, hit=True, HUGEALIGN_PROFILE="") == {".text"}


@pytest.mark.parametrize("form", ["variable", "configuration"])
def test_what_the_user_lets_ccache_look_at_stays(form: str, newest: Built, work: Work) -> None:
    """The files of CCACHE_EXTRAFILES, or of ccache.conf, which that variable hides."""
    cached = Cached(work)
    mine = work.directory / "mine"
    mine.write_text("1")
    settings: Settings = {}
    if form == "variable":
        settings["CCACHE_EXTRAFILES"] = str(mine)
    else:
        (work.directory / "ccache").mkdir()
        (work.directory / "ccache" / "ccache.conf").write_text(f"extra_files_to_hash = {mine}\n")
    for text in ("1", "2"):
        mine.write_text(text)
        assert cached.compile("ccache", newest.clang, hit=False, **settings) == PLUGIN
        assert cached.compile("ccache", newest.clang, hit=True, **settings) == PLUGIN


def test_ccache_before_hugealign(newest: Built, work: Work) -> None:
    """ccache knows of the order only by a setting: without it no plugin, so that an object suits every order."""
    cached = Cached(work)
    extra: Settings = {"CCACHE_EXTRAFILES": work.settings["HUGEALIGN_PROFILE"]}

    def compiled(hit: bool, **settings: Any) -> set[str]:
        target = work.directory / "one.o"
        target.unlink(missing_ok=True)
        before = cached.hits()
        command = ("ccache", HUGEALIGN, newest.clang, "-O1", "-c", "one.c", "-o", "one.o")
        run(*command, cwd=work.directory, check=True, **(work.settings | cached.settings | settings))
        assert cached.hits() - before == hit
        return sections(target)

    assert compiled(hit=False) == FLAG
    work.order("cold")
    assert compiled(hit=True) == FLAG
    assert compiled(hit=False, **extra) == {".text", ".text.hot.cold"}
    work.order("hot")
    assert compiled(hit=False, **extra) == PLUGIN


def test_the_links_of_ccache(newest: Built, work: Work) -> None:
    """With ccache's directory first on PATH, `hugealign clang` runs ccache; `hugealign ccache clang` the compiler."""
    cached = Cached(work)
    link = Path("/usr/lib/ccache") / newest.clang
    if not link.exists():
        pytest.skip("ccache has no link for this compiler")
    path: Settings = {"PATH": f"/usr/lib/ccache:{os.environ['PATH']}"}
    assert cached.compile(newest.clang, hit=False, **path) == FLAG
    work.order("cold")
    assert cached.compile(newest.clang, hit=True, **path) == FLAG
    work.order("hot")
    assert cached.compile("ccache", newest.clang, hit=False, **path) == PLUGIN


@pytest.mark.parametrize("name", ["sccache", "distcc", "icecc", "buildcache"])
def test_caches_that_cannot_be_told(name: str, newest: Built, work: Work) -> None:
    """A script stands in for the cache: what is of interest is what it is given."""
    (work.directory / name).write_text('#!/bin/sh\necho "$*"\n')
    (work.directory / name).chmod(0o755)
    done = run(HUGEALIGN, work.directory / name, newest.clang, "-c", "one.c", cwd=work.directory, **work.settings)
    assert done.stdout == f"{newest.clang} -ffunction-sections -c one.c\n"


@pytest.mark.parametrize("how", ["as it is", "others write above", "a link above", "a link", "others write to it"])
def test_a_plugin_that_others_could_exchange_is_not_used(how: str, work: Work, newest: Built, tmp_path: Path) -> None:
    """Root with a user's HOME is such a case: the list does not offer what lies there, and sh follows no link."""
    home = tmp_path / "home"
    place = copy_of_cache(newest.cache, home / "cache")
    plugin = place.parent / newest.plugin.name
    shutil.copy2(newest.plugin, plugin)
    place.write_text(place.read_text().replace(str(newest.plugin), str(plugin)))
    if how == "others write above":
        home.chmod(0o777)
    elif how == "others write to it":
        plugin.chmod(0o666)
    elif how == "a link":
        plugin.rename(plugin.with_suffix(".real"))
        plugin.symlink_to(plugin.with_suffix(".real"))
    elif how == "a link above":
        home.rename(tmp_path / "real")
        home.symlink_to(tmp_path / "real")
    settings: Settings = {"XDG_CACHE_HOME": str(home / "cache")}
    used = how == "as it is"
    if used or how == "a link":
        assert work.compile(newest.clang, **settings) == (PLUGIN if used else FLAG)
    assert (f"{plugin}\n" in run(HUGEALIGN, "plugin", "list", check=True, **settings).stdout) == used
