"""``order --blocks``, the compilation with it, and the link: with the real compilers, judged by readelf and by running.

The profile is made up: which blocks ran is drawn, because whatever it says the program has to be the same.
"""

import json
import random
import re
import shutil
from pathlib import Path

import pytest

from hugealign import orderfile
from hugealign.code.blockmap import read_blocks
from hugealign.elf.symbols import read_functions
from hugealign.wrapper.block_lists import ALIGNMENT
from tests.build.manual import emulates
from tests.build.projects import EVEN_IF_SMALL, Settings, linker_features, rust_host
from tests.commands.profiles import addressed
from tests.documents import check
from tests.support import BIN, HUGEALIGN, LLVM, ROOT, Elf, environment, need, run

#: By compiler: what has it write the map.
MAPS = {"clang-14": "-fbasic-block-sections=labels", "clang-19": "-fbasic-block-address-map"}
COMPILERS = [name for name in MAPS if shutil.which(name)]
IN_TURN = [pytest.param(name, marks=pytest.mark.matrix if name != COMPILERS[-1] else ()) for name in COMPILERS]
FIRST = """\
#include <cstdio>
#include <stdexcept>
#include <string>
int second(int), loops(int);
__attribute__((noinline)) static int same(int x) { return x > 2 ? loops(x) * 3 : second(x + 3) - 7; }
__attribute__((noinline)) int thrown(int x) {
    if (x % 3 == 0) throw std::runtime_error("three");
    if (x % 5 == 0) throw x;
    return x;
}
__attribute__((noinline)) int caught(int x) {
    std::string s("x");
    try { s += std::to_string(thrown(x)); return (int)s.size(); }
    catch (std::runtime_error &) { return 100; }
    catch (int y) { return 1000 + y; }
}
__attribute__((noinline)) int jumps(int x) {
    switch (x) {
    case 0: return 7; case 1: return 77; case 2: return x + 4; case 3: return x * 9; case 4: return 12;
    case 5: puts("five"); return 1; case 6: return -1; case 7: return x * x; default: return x ^ 3;
    }
}
__attribute__((noinline)) int computed(int x) {
    static const void *const where[] = {&&one, &&two, &&three};
    int sum = 0;
    goto *where[x % 3];
one: sum += 1; if (x > 4) goto three;
two: sum += 20; if (x == 7) return sum;
three: return sum + 300;
}
__attribute__((noinline)) int loops(int x) {
    int sum = 0;
    for (int i = 0; i < x; i++) { if (i % 4 == 3) { sum ^= i; continue; } sum += i * x; }
    return sum;
}
int main() {
    for (int x = 0; x < 12; x++)
        printf("%d %d %d %d %d\\n", caught(x), jumps(x), computed(x), loops(x), same(x) + second(x));
}
"""
#: What comes before main in the build after.
NEW = """\
__attribute__((noinline)) int added(int x) { return x & 1 ? thrown(x * 7 + 1) : 8; }
int main() {
    printf("%d\\n", added(2));
"""
SECOND = """\
int loops(int);
__attribute__((noinline)) static int same(int x) { return x > 4 ? loops(x) * 5 : x - 9; }
int second(int x) { return x % 2 ? same(x) : 4; }
"""
GOTO = """\
#include <stdio.h>
__attribute__((noinline)) int asm_goto(int x) {
    __asm__ goto("test %0, %0\\n jz %l[zero]" : : "r"(x) : "cc" : zero);
    return x * 3;
zero: return 50;
}
int main(void) { for (int x = 0; x < 3; x++) printf("%d\\n", asm_goto(x)); return 0; }
"""


class Work:
    """A program's sources in a directory, and how it is compiled."""

    def __init__(self, directory: Path, compiler: str, *flags: str, **sources: str) -> None:
        self.directory, self.compiler, self.flags = directory, compiler, flags
        self.settings: Settings = {**EVEN_IF_SMALL, "XDG_CACHE_HOME": str(directory / "cache")}
        self.report = ""
        self.sources = sources or {"first.cc": FIRST, "second.cc": SECOND}
        for name, text in self.sources.items():
            (directory / name).write_text(text)

    def build(self, name: str, *words: str, profile: str = "", linker: tuple[str, ...] = ()) -> Path:
        """Compile and link all sources, with the order *profile* if there is one, and return the program."""
        ours = [HUGEALIGN, f"--profile={profile}"] if profile else []
        lld = ("-fuse-ld=lld", f"-B{LLVM['lld' + self.compiler.rpartition('-')[2]]}")
        for source in self.sources:
            compiler = self.compiler.replace("clang", "clang++") if source.endswith("cc") else self.compiler
            self.run(*ours, compiler, "-O2", *self.flags, *words, "-c", source, "-o", f"{source}.o")
        objects = [f"{source}.o" for source in self.sources]
        compiler = self.compiler.replace("clang", "clang++")
        self.run(*ours, compiler, *self.flags, *words, *(linker or lld), *objects, "-o", name)
        return self.directory / name

    def run(self, *words: object) -> str:
        done = run(*words, cwd=self.directory, check=True, **self.settings)
        assert done.stderr == ""
        return done.stdout

    def order(self, program: Path, seed: int) -> orderfile.OrderFile:
        """Write the order `order` of blocks that are drawn, and return it."""
        draw = random.Random(seed)
        functions = read_functions(program)
        samples: dict[int, int] = {}
        runs: dict[tuple[int, int], int] = {}
        for start, blocks in read_blocks(program).items():
            if functions.at(start) >= 0:
                ran = [block for block in blocks if block.size and (block.address == start or draw.random() < 0.5)]
                runs.update(((block.address, block.address + block.size), 20_000_000) for block in ran)
                samples.update((block.address, 20_000_000) for block in ran)
        (self.directory / "profile").write_bytes(addressed(program, samples, runs))
        words = ("profile", "-b", program.name, "--windows", "7", "-o", "order")
        self.report = self.run(HUGEALIGN, "order", "--blocks", *words)
        return orderfile.load(str(self.directory / "order"))


def write_order(directory: Path, *entries: orderfile.Entry, **header: str) -> None:
    """Write the order `order` of functions that are divided."""
    order = orderfile.OrderFile({"blocks": f"of {len(entries)}", **header}, list(entries))
    (directory / "order").write_text(orderfile.write(order))


@pytest.fixture
def reads_units() -> None:
    """Skip where the Python that runs hugealign has no pyelftools."""
    find = f". {ROOT}/hugealign/sh/python.sh && find_python {ROOT}/hugealign && \"$python\" -c 'import elftools'"
    if run("sh", "-c", find).returncode:
        pytest.skip("no pyelftools for the Python that runs hugealign")


def symbols(program: Path) -> dict[str, int]:
    lines = run("nm", "--defined-only", program, check=True).stdout.splitlines()
    return {name: int(address, 16) for address, _, name in (line.split(" ", 2) for line in lines)}


def parts(program: Path) -> set[str]:
    """The functions of which something has left."""
    return {name.removesuffix(".cold") for name in symbols(program) if name.endswith(".cold")}


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", IN_TURN)
def test_divided_functions_do_the_same(compiler: str, tmp_path: Path) -> None:
    """Exceptions, computed gotos, tables of jumps; two local functions of one name stay whole."""
    work = Work(tmp_path, compiler)
    plain = work.build("plain", MAPS[compiler])
    expected = work.run(plain)
    assert expected.count("\n") == 13
    order = work.order(plain, 1)
    divided = {entry.name for entry in order.entries if entry.blocks}
    assert {"_Z6caughti", "_Z5jumpsi", "_Z8computedi"} <= divided
    assert not any("same" in name for name in divided)
    assert sum("same" in entry.name for entry in order.entries) == 2
    assert re.search(r"\n2 functions kept whole, \d+ B: others have the same names\n", work.report), work.report
    program = work.build("divided", profile="order")
    assert work.run(program) == expected
    assert parts(program) <= divided
    assert len(parts(program)) >= 4
    # What ran lies first, what leaves behind all of it.
    addresses = symbols(program)
    hot = max(addresses[name] for name in divided)
    assert all(addresses[f"{name}.cold"] > hot for name in parts(program))
    (made,) = (tmp_path / "cache" / "hugealign").glob("*.list")
    assert re.fullmatch(r"(?:![^!\n]+\n!!0(?: \d+)*\n)+", made.read_text())


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", IN_TURN)
def test_local_functions_of_one_name(compiler: str, tmp_path: Path) -> None:
    """A trace knows what each of them does; both keep the blocks that ran in one, and are divided."""
    if not emulates():
        pytest.skip("QEMU takes no plugins here")
    work = Work(tmp_path, compiler)
    plain = work.build("plain", MAPS[compiler])
    work.run(HUGEALIGN, "trace", "-o", "trace", "--", plain)
    report = work.run(HUGEALIGN, "order-trace", "--blocks", "trace", "-b", plain, "--cpu", "zen3", "-o", "order")
    assert "kept whole" not in report
    entries = orderfile.load(str(tmp_path / "order")).entries
    (name,) = {entry.name for entry in entries if "same" in entry.name and entry.file}
    local = [entry for entry in entries if entry.name == name]
    assert sorted(entry.file for entry in local) == ["first.cc", "second.cc"]
    assert len({entry.blocks for entry in local}) == 1
    assert local[0].blocks
    program = work.build("divided", profile="order")
    assert work.run(program) == work.run(plain)
    (made,) = (tmp_path / "cache" / "hugealign").glob("*.list")
    assert made.read_text().count(f"!{name}\n") == 1


@pytest.mark.matrix
@pytest.mark.usefixtures("reads_units")
@pytest.mark.parametrize("compiler", IN_TURN)
def test_local_functions_by_their_units(compiler: str, tmp_path: Path) -> None:
    """Debug information tells them apart where the list does; clang 14 passes over such a list without a word."""
    work = Work(tmp_path, compiler, "-g1")
    plain = work.build("plain", MAPS[compiler])
    order = work.order(plain, 1)
    local = [entry for entry in order.entries if "same" in entry.name and entry.blocks]
    assert sorted(entry.unit for entry in local) == ["first.cc", "second.cc"]
    assert len({entry.blocks for entry in local}) == 2
    assert "kept whole" not in work.report
    program = work.build("divided", profile="order")
    assert work.run(program) == work.run(plain)
    assert len(parts(program)) >= 4
    (made,) = (path.read_text() for path in (tmp_path / "cache" / "hugealign").glob("*.list") if _used(path))
    name = local[0].name
    if compiler == "clang-14":
        assert made.count(f"!{name}\n") == 1
    else:
        assert made.startswith("v1\n")
        assert all(f"m {entry.unit}\nf {name}\nc {' '.join(map(str, entry.blocks))}\n" in made for entry in local)


@pytest.mark.matrix
@pytest.mark.usefixtures("reads_units")
@pytest.mark.parametrize("debug", ["-g0", "-g1"])
@pytest.mark.parametrize("compiler", IN_TURN)
def test_what_did_not_run_is_not_placed(compiler: str, debug: str, tmp_path: Path) -> None:
    """Of three local functions of one name two ran: clang puts them into .text.hot., and LLD leaves the third."""
    if not emulates():
        pytest.skip("QEMU takes no plugins here")
    third = SECOND.replace("second", "third").replace("x * 5", "x * 11")
    main = "int second(int);\nint third(int);\nint loops(int x) { return x + 1; }\n"
    main += "__attribute__((noinline)) static int same(int x) { return x > 1 ? loops(x) * 7 : x - 2; }\n"
    main += "int main(int n, char **v) { return (n > 5 ? third(n) : same(n) + second(n + 2)) != 19 && v; }\n"
    sources = {"first.cc": main, "second.cc": SECOND.replace("x > 4", "x > 2"), "third.cc": third}
    work = Work(tmp_path, compiler, debug, **sources)
    plain = work.build("plain", MAPS[compiler])
    work.run(HUGEALIGN, "trace", "-o", "trace", "--", plain)
    work.run(HUGEALIGN, "order-trace", "--blocks", "trace", "-b", plain, "--cpu", "zen3", "--no-fill", "-o", "order")
    program = work.build("divided", profile="order")
    work.run(program)
    lines = run("nm", program, check=True).stdout.splitlines()
    places = [int(line.split()[0], 16) for line in lines if line.endswith(" _ZL4samei")]
    (end,) = (int(line.split()[0], 16) for line in lines if line.endswith(" __hugealign_hot_end"))
    assert (len(places), sum(place < end for place in places)) == (3, 2)
    assert "_ZL4samei" in parts(program)


def _used(path: Path) -> bool:
    """Whether an index names the list: one that the compiler does not take lies beside it."""
    return any(str(path) in index.read_text() for index in path.parent.glob("blocks*") if index.suffix != ".list")


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", IN_TURN)
def test_local_functions_with_names_of_their_own(compiler: str, tmp_path: Path) -> None:
    work = Work(tmp_path, compiler, "-funique-internal-linkage-names")
    plain = work.build("plain", MAPS[compiler])
    order = work.order(plain, 6)
    assert sum("same" in entry.name and bool(entry.blocks) for entry in order.entries) == 2
    assert "kept whole" not in work.report
    assert work.run(work.build("divided", profile="order")) == work.run(plain)


@pytest.mark.parametrize("compiler", IN_TURN)
def test_a_list_for_other_sources(compiler: str, tmp_path: Path) -> None:
    """Numbers that no block has, names that no function has: no complaint, and the program is what it was."""
    work = Work(tmp_path, compiler)
    expected = work.run(work.build("plain", MAPS[compiler]))
    entries = [orderfile.Entry(name, blocks=(0, 99, 3, 7)) for name in ("_Z6caughti", "_Z5jumpsi", "main", "nothing")]
    write_order(tmp_path, *entries, windows="1")
    assert work.run(work.build("divided", profile="order")) == expected


@pytest.mark.parametrize("compiler", IN_TURN)
def test_a_profile_of_the_build_before(compiler: str, tmp_path: Path) -> None:
    """Of functions that have not changed the same blocks stay; of one that has, those that are still there."""
    work = Work(tmp_path, compiler)
    before = work.order(work.build("before", MAPS[compiler]), 11)
    changed = FIRST.replace("case 1: return 77;", 'case 1: puts("one"); return second(x);').replace("int main() {", NEW)
    (tmp_path / "first.cc").write_text(changed)
    plain = work.build("changed", MAPS[compiler])
    expected = work.run(plain)
    words = ("profile", "--old-binary", "before", "-b", "changed", "--windows", "7")
    report = work.run(HUGEALIGN, "order", "--blocks", *words, "-o", "order", "--json")
    old = json.loads(report)["old_binary"]
    check(report)
    assert old["path"] == "before"
    assert old["matched"] == old["ran"] >= 8
    assert 0.8 * old["blocks"]["ran"] < old["blocks"]["matched"] <= old["blocks"]["ran"]
    after = orderfile.load(str(tmp_path / "order"))
    known, now = ({entry.name: entry.blocks for entry in order.entries if entry.blocks} for order in (before, after))
    same = {"_Z6caughti", "_Z8computedi", "_Z5loopsi"}
    assert {name: now[name] for name in same} == {name: known[name] for name in same}
    assert now["_Z5jumpsi"] != known["_Z5jumpsi"]
    text = work.run(HUGEALIGN, "order", "--blocks", *words)
    assert re.search(r"\nold      found \d+ of the \d+ functions that ran in before\n", text), text
    assert re.search(r"\n         and \d+ of \d+ blocks that ran in them\n", text), text
    assert work.run(work.build("divided", profile="order")) == expected
    assert parts(tmp_path / "divided") & {"_Z6caughti", "_Z5jumpsi", "_Z8computedi"}


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", IN_TURN)
def test_a_build_without_a_map(compiler: str, tmp_path: Path) -> None:
    """Either of the two."""
    work = Work(tmp_path, compiler)
    work.order(work.build("before", MAPS[compiler]), 11)
    bare = work.build("bare")
    (tmp_path / "other").write_bytes(addressed(bare, {symbols(bare)["main"]: 9}))
    words = (HUGEALIGN, "order", "--blocks", "profile", "--windows", "7")
    for profile, old, new in (("profile", "before", "bare"), ("other", "bare", "before")):
        command = (*words[:3], profile, "--old-binary", old, "-b", new, "-o", "none", "--force")
        done = run(*command, cwd=tmp_path, **work.settings)
        assert done.returncode == 3
        assert done.stderr.startswith("hugealign: error: bare: has no map of blocks;")
        assert not (tmp_path / "none").exists()
    done = run(*words[:2], *words[3:], "--old-binary", "before", "-b", "bare", cwd=tmp_path, **work.settings)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", IN_TURN)
def test_a_build_without_names_or_code(compiler: str, tmp_path: Path) -> None:
    """What is missing is said, not what follows from it."""
    work = Work(tmp_path, compiler, "-g1")
    work.order(work.build("before", MAPS[compiler]), 11)
    run("strip", "before", "-o", "stripped", cwd=tmp_path, check=True)
    run("objcopy", "--only-keep-debug", "before", "before.debug", cwd=tmp_path, check=True)
    words = (HUGEALIGN, "order", "--blocks", "profile", "--windows", "7")
    for new, status, message in (
        ("stripped", 1, "no function that ran in before is in stripped"),
        ("before.debug", 3, "before.debug: has no code to recognise blocks by; give the program, not its debug file"),
    ):
        done = run(*words, "--old-binary", "before", "-b", new, cwd=tmp_path, **work.settings)
        assert (done.returncode, done.stderr) == (status, f"hugealign: error: {message}\n")


@pytest.mark.matrix
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("compiler", IN_TURN)
@pytest.mark.parametrize("flags", [("-g",), ("-fPIC",), ("-O3", "-g", "-gz"), ("-fsanitize=address,undefined",)])
def test_any_blocks(compiler: str, flags: tuple[str, ...], seed: int, tmp_path: Path) -> None:
    work = Work(tmp_path, compiler, *flags)
    plain = work.build("plain", MAPS[compiler])
    expected = work.run(plain)
    work.order(plain, seed)
    assert work.run(work.build("divided", profile="order")) == expected


@pytest.mark.matrix
@pytest.mark.parametrize("linker", ["bfd", "gold", "mold"])
@pytest.mark.parametrize("compiler", IN_TURN)
def test_linkers(compiler: str, linker: str, tmp_path: Path) -> None:
    work = Work(tmp_path, compiler)
    words = (f"-fuse-ld={linker}",)
    plain = work.build("plain", MAPS[compiler], linker=words)
    expected = work.run(plain)
    work.order(plain, 2)
    program = work.build("divided", profile="order", linker=words)
    assert work.run(program) == expected
    assert parts(program)


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", IN_TURN)
def test_asm_goto(compiler: str, tmp_path: Path) -> None:
    work = Work(tmp_path, compiler, **{"a.c": GOTO})
    plain = work.build("plain", MAPS[compiler])
    work.order(plain, 3)
    assert work.run(work.build("divided", profile="order")) == work.run(plain) == "50\n3\n6\n"


@pytest.mark.matrix
@pytest.mark.parametrize("lto", ["thin", "full"])
@pytest.mark.parametrize("compiler", IN_TURN)
def test_link_time_optimisation(compiler: str, lto: str, tmp_path: Path) -> None:
    """The blocks are made in the link, which receives the list."""
    work = Work(tmp_path, compiler, f"-flto={lto}")
    word = "-Wl,--lto-basic-block-sections=labels" if compiler == "clang-14" else "-Wl,--lto-basic-block-address-map"
    plain = work.build("plain", "--start-no-unused-arguments", word, "--end-no-unused-arguments")
    expected = work.run(plain)
    assert any(entry.blocks for entry in work.order(plain, 4).entries)
    program = work.build("divided", profile="order")
    assert work.run(program) == expected
    assert parts(program)
    divided = [address for name, address in symbols(program).items() if name in parts(program)]
    assert {address % 16 for address in divided} == {0, 8}
    own = work.build("own", "--start-no-unused-arguments", "-Wl,-mllvm,-align-all-functions=6", profile="order")
    assert work.run(own) == expected
    assert all(address % 64 == 0 for name, address in symbols(own).items() if name in parts(own))


ALIGNED = """\
int g(int);
int f(int x) { if (x > 3) return g(x) * 2; return g(x + 1) - 3; }
__attribute__((aligned(64))) int h(int x) { return x; }
"""


@pytest.mark.parametrize("compiler", IN_TURN)
def test_what_is_compiled_with_blocks_is_aligned_to_less(compiler: str, tmp_path: Path) -> None:
    """Not below what the source, or an option of the user's, requests; and nothing that -Os packs becomes larger."""
    write_order(tmp_path, orderfile.Entry("f", blocks=(0, 2)))
    (tmp_path / "one.c").write_text(ALIGNED)
    (tmp_path / "words").write_text("-mllvm -align-all-functions=5\n")
    settings: Settings = {"XDG_CACHE_HOME": str(tmp_path / "cache")}

    def aligned(*words: str, front: tuple[object, ...] = (HUGEALIGN, "--profile=order")) -> list[int]:
        command = (*front, compiler, *words, "-c", "one.c", "-o", "one.o")
        assert run(*command, cwd=tmp_path, check=True, **settings).stderr == ""
        sections = Elf(tmp_path / "one.o").sections
        hot = sections.get(".text.hot.f") or sections[".text.f"]  # newer ones say which of a function's sections is hot
        return [hot["sh_addralign"], sections[".text.h"]["sh_addralign"]]

    plain = ("-O2", "-ffunction-sections")
    assert aligned(*plain, front=()) == [16, 64]
    assert aligned("-O2") == [ALIGNMENT, 64]
    assert aligned("-O2", "-falign-functions=32") == [32, 64]
    assert aligned("-O2", "-mllvm", "-align-all-functions=5") == [32, 64]
    assert aligned("-O2", "@words") == [32, 64]
    for small in ("-Os", "-Oz"):
        assert aligned(small) == aligned(small, "-ffunction-sections", front=()) == [1, 64]


@pytest.mark.parametrize("compiler", IN_TURN)
def test_a_compiler_that_fails_once_is_tried_again(compiler: str, tmp_path: Path) -> None:
    """With the list or without: that is not remembered, and said.  What it always says is not a failure."""
    write_order(tmp_path, orderfile.Entry("f", blocks=(0, 2)))
    (tmp_path / "one.c").write_text(ALIGNED)
    front = tmp_path / "clang"
    front.write_text(f'#!/bin/sh\ncase $* in *"$BROKEN") exit 1;; esac\necho hm >&2\nexec {compiler} "$@"\n')
    front.chmod(0o755)
    settings: Settings = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = (HUGEALIGN, "--profile=order", "./clang", "-O2", "-c", "one.c", "-o", "one.o")
    done = run(*command, cwd=tmp_path, check=True, BROKEN="/dev/null", **settings)
    assert done.stderr.startswith("hugealign: warning: compiled without blocks: ")
    assert done.stderr.count("\n") == 2
    assert ".text.split.f" not in Elf(tmp_path / "one.o").sections
    assert run(*command, cwd=tmp_path, check=True, BROKEN="none", **settings).stderr == "hm\n"
    assert ".text.split.f" in Elf(tmp_path / "one.o").sections


@pytest.mark.parametrize("kind", ["", "=all", "=bitcode", "=marker", "=off", "-marker"])
@pytest.mark.parametrize("compiler", IN_TURN)
def test_clang_refuses_sections_with_bitcode(compiler: str, kind: str, tmp_path: Path) -> None:
    """In an object with its bitcode: then it is compiled as without a profile."""
    entries = [orderfile.Entry("f", blocks=(0, 2))]
    (tmp_path / "one.c").write_text(ALIGNED)
    for header in ({"blocks": "of 1"}, {}):
        (tmp_path / "order").write_text(orderfile.write(orderfile.OrderFile(header, entries)))
        command = (HUGEALIGN, "--profile=order", compiler, "-O2", f"-fembed-bitcode{kind}", "-c", "one.c")
        done = run(*command, cwd=tmp_path, check=True, XDG_CACHE_HOME=str(tmp_path / "cache"))
        assert done.stderr == ""


RUST = """\
use std::collections::HashMap;
fn work(n: u64) -> Result<u64, String> {
    let (mut seen, mut sum) = (HashMap::new(), 0);
    for i in 0..n {
        *seen.entry(i % 97).or_insert(0) += i;
        if i % 1000 == 999 { sum += seen[&(i % 97)]; }
        if i == 123456 { return Err(format!("too far: {i}")); }
    }
    Ok(sum)
}
fn main() {
    println!("{:?} {:?}", work(5000), work(200000));
    let caught = std::panic::catch_unwind(|| vec![1][std::env::args().count() + 5]);
    println!("{}", caught.is_err());
}
"""


@pytest.mark.matrix
def test_rust(tmp_path: Path) -> None:
    """rustc leaves its code to the LLD that comes with it, which makes the map, and then divides."""
    need("rustc", "clang")
    root = run("rustc", "--print", "sysroot", check=True).stdout.strip()
    lld = Path(root, "lib", "rustlib", rust_host(), "bin", "gcc-ld")
    if not lld.is_dir():
        pytest.skip("this rustc comes without an LLD")
    (tmp_path / "main.rs").write_text(RUST)
    settings: Settings = {**EVEN_IF_SMALL, "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def built(name: str, *words: str, **more: str) -> Path:
        rust = ("rustc", "-O", "-Clinker-plugin-lto", f"-Clinker={BIN}/hugealign-clang", *linker_features())
        front = (*rust, "-Clink-arg=-fuse-ld=lld", f"-Clink-arg=-B{lld}")
        run(*front, *words, "main.rs", "-o", name, cwd=tmp_path, check=True, **{**settings, **more})
        return tmp_path / name

    plain = built("plain", "-Clink-arg=-Wl,--lto-basic-block-address-map")
    work = Work(tmp_path, "clang-19", none="")
    assert any(entry.blocks for entry in work.order(plain, 5).entries)
    program = built("divided", HUGEALIGN_PROFILE=str(tmp_path / "order"))
    assert parts(program)
    assert run(program).stdout == run(plain).stdout != ""


def test_what_has_no_such_list(tmp_path: Path) -> None:
    """gcc, and a target without such sections, get functions alone."""
    write_order(tmp_path, orderfile.Entry("second", blocks=(0, 2)))
    (tmp_path / "one.c").write_text("int second(int x) { return x ? x * 3 : 4; }\n")
    settings: Settings = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    targets = [("gcc",), *((name, "--target=wasm32") for name in COMPILERS)]
    targets += [("clang-14", "-target", "aarch64-linux-gnu")] if "clang-14" in COMPILERS else []
    for words in targets:
        command = (HUGEALIGN, "--profile=order", *words, "-O2", "-c", "one.c", "-o", "one.o")
        done = run(*command, cwd=tmp_path, check=True, **settings)
        assert done.stderr == "", words
        output = run(*command, cwd=tmp_path, check=True, HUGEALIGN_DEBUG="1", **settings).stderr
        assert ("compiled without blocks" in output) == (words[0] != "gcc"), words


@pytest.mark.skipif("clang-19" not in COMPILERS, reason="no clang-19")
def test_the_list_is_made_once_for_each_order(tmp_path: Path) -> None:
    work = Work(tmp_path, "clang-19", **{"one.c": "int second(int x) { return x ? x * 3 : 4; }\nint main(void) {}\n"})
    cache = tmp_path / "cache" / "hugealign"

    def compiled(*blocks: int) -> set[Path]:
        write_order(tmp_path, orderfile.Entry("second", blocks=blocks))
        work.build("one", profile="order")
        return set(cache.glob("*.list"))

    first = compiled(0, 1)
    assert len(first) == 1
    (made,) = first
    before = made.stat().st_ctime_ns
    work.build("one", profile="order")
    assert made.stat().st_ctime_ns == before
    assert len(compiled(0, 2)) == 2


#: A function of more than one block, whatever the optimisation.
BRANCH = """\
int second(int x) { if (x) { __asm__ volatile("nop"); return x * 3; } __asm__ volatile("nop; nop"); return 4; }
int main(int n, char **w) { (void)w; return second(n - 1) - 4; }
"""
#: What is removed when the compiler starts.
GONE = {"the list": "rm -f {cache}/hugealign/blocks-*.list", "the cache": "rm -rf {cache}"}


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("compiler", IN_TURN)
def test_a_list_that_is_removed_while_the_compiler_starts(compiler: str, gone: str, tmp_path: Path) -> None:
    """The compiler reads what hugealign has opened; later compilations make the list again."""
    work = Work(tmp_path, compiler, **{"one.c": BRANCH})
    write_order(tmp_path, orderfile.Entry("second", blocks=(0, 2)))
    assert parts(work.build("one", profile="order")) == {"second"}
    before = (tmp_path / "one.c.o").read_bytes()
    (tmp_path / "bin").mkdir()
    real = shutil.which(compiler)
    assert real
    wrapper = tmp_path / "bin" / compiler
    removal = GONE[gone].format(cache=tmp_path / "cache")
    wrapper.write_text(f'#!/bin/sh\n[ -z "$REMOVE" ] || {removal}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    command = (HUGEALIGN, "--profile=order", compiler, "-O2", "-c", "one.c", "-o", "one.c.o")
    settings = work.settings | {"PATH": f"{tmp_path}/bin:{environment()['PATH']}"}
    for remove in ("", "1", "", "1"):
        done = run(*command, cwd=tmp_path, REMOVE=remove, **settings)
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / "one.c.o").read_bytes() == before


def test_ccache_tells_lists_apart(tmp_path: Path) -> None:
    """It sees their names, though the compiler reads them by a descriptor."""
    need("clang-19", "ccache")
    work = Work(tmp_path, "clang-19", **{"one.c": BRANCH})
    settings = work.settings | {"CCACHE_DIR": str(tmp_path / "ccache")}
    made = []
    for blocks in ((0, 1), (0, 2), (0, 1)):
        write_order(tmp_path, orderfile.Entry("second", blocks=blocks))
        words = (HUGEALIGN, "--profile=order", "ccache", "clang-19", "-O2", "-c", "one.c", "-o", "one.o")
        run(*words, cwd=tmp_path, check=True, **settings)
        made.append((tmp_path / "one.o").read_bytes())
    assert made[0] == made[2] != made[1]
    printed = run("ccache", "--print-stats", check=True, **settings).stdout
    assert sum(map(int, re.findall(r"^(?:direct|preprocessed)_cache_hit\t(\d+)$", printed, re.MULTILINE))) == 1


def test_no_map_of_blocks(tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text("int main(void) { return 0; }\n")
    run("gcc", "one.c", "-o", "one", cwd=tmp_path, check=True)
    (tmp_path / "profile").write_text("main\n")
    done = run(HUGEALIGN, "order", "--blocks", "profile", "-b", "one", "-o", "order", cwd=tmp_path)
    assert done.returncode == 3
    assert "one: has no map of blocks; compile it once with clang -fbasic-block-address-map" in done.stderr
    assert not (tmp_path / "order").exists()


@pytest.mark.parametrize("compiler", IN_TURN)
def test_no_home(compiler: str, tmp_path: Path) -> None:
    """Nothing is kept for a build without HOME: what Python looks up for it is not where the launcher would look."""
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    order = tmp_path / "order"
    order.write_text("# hugealign.order/1\n# blocks: 1\nmain\tblocks=0\n")
    words = ("env", "-u", "XDG_CACHE_HOME", "-u", "HOME", HUGEALIGN, f"--profile={order}", compiler, "-v")
    done = run(*words, "-c", "main.c", cwd=tmp_path, check=True)
    output = [line for line in done.stderr.splitlines() if line.startswith("hugealign:")]
    assert output == ["hugealign: warning: compiled without blocks: HOME is not set; set XDG_CACHE_HOME"]
    assert "-ffunction-sections" in done.stderr
    assert "-fbasic-block-sections" not in done.stderr
    cache = tmp_path / "cache"
    done = run(*words[:5], f"XDG_CACHE_HOME={cache}", *words[5:], "-c", "main.c", cwd=tmp_path, check=True)
    assert "-fbasic-block-sections=list=/proc/self/fd/" in done.stderr
    assert list((cache / "hugealign").glob("blocks-*.list"))


INSTRUMENTED = """\
#include <stdio.h>
#include <stdlib.h>
int even(int x) { if (x % 7 == 3) return x * 3; if (x % 11 == 5) return x - 4; return x + 1; }
int odd(int x) { if (x & 1) return even(x) + 2; return x ^ 5; }
int (*volatile table[])(int) = {even, odd, even, odd};
int tail(int x) { if (x % 5 == 0) x = even(x) * 2; if (x % 3 == 1) x ^= 77; return table[x & 3](x); }
int loops(int x) {
    int sum = 0;
    for (int i = 0; i < x % 50; i++) {
        if (i % 3) sum += odd(i); else if (i % 4 == 1) sum -= i; else sum ^= i;
        if (sum > 100000) { puts("never"); exit(3); }
    }
    return sum;
}
int main(void) {
    int sum = 0;
    for (int i = 0; i < 2000; i++) { sum += tail(i); if (i % 4 == 0) sum += loops(i); }
    printf("%d\\n", sum);
}
"""


def test_counts_of_bolts_instrumentation(tmp_path: Path) -> None:
    """Exact, so a few thousand split a function; `tail`, with an indirect tail call, BOLT does not instrument."""
    need("clang-19")
    bolt = Path(LLVM["lld19"]) / "llvm-bolt"
    need(str(bolt))
    (tmp_path / "p.c").write_text(INSTRUMENTED)
    link = ("-fuse-ld=lld", f"-B{LLVM['lld19']}", "-Wl,-q")
    run("clang-19", "-O2", "-fno-inline", MAPS["clang-19"], *link, "p.c", "-o", "p", cwd=tmp_path, check=True)
    data = tmp_path / "p.fdata"
    run(bolt, "p", "--instrument", "-o", "counting", f"--instrumentation-file={data}", cwd=tmp_path, check=True)
    run(tmp_path / "counting", check=True)
    assert "tail" not in {line.split()[1] for line in data.read_text().splitlines() if line.startswith("1 ")}
    done = run(HUGEALIGN, "order", "--blocks", data, "-b", "p", "-o", "p.order", cwd=tmp_path, check=True)
    assert "warning: 1 function that ran is not split" in done.stderr
    entries = orderfile.load(str(tmp_path / "p.order")).entries
    split = {entry.name: entry.blocks for entry in entries if entry.kind != orderfile.FILL}
    names = ("tail", "main", "loops", "odd", "even")
    assert [name for name in names if split[name]] == ["main", "loops", "odd", "even"]
    assert "tail" in split


#: Functions of one name, whose addresses the linker script puts against the order of the symbol table.
SAME_NAME = {
    "a.c": """\
__attribute__((noinline)) static int f(int x) { if (x > 3) return x * 3; return x + 1; }
int a(int x) { return f(x) + 1; }
""",
    "b.c": """\
int a(int x);
__attribute__((noinline)) static int f(int x) {
    if (x > 5) return x * 7;
    for (int i = 0; i < x; i++) __asm__ volatile("");
    return x + 2;
}
int main(void) {
    int sum = 0;
    for (int i = 0; i < 3000; i++) sum += f(i % 9);
    for (int i = 0; i < 700; i++) sum += a(i & 1);
    return sum & 1;
}
""",
    "against.ld": "SECTIONS { .text : { *b.o(.text.f) *(.text .text.*) } } INSERT AFTER .init;\n",
}


def test_counts_of_functions_of_one_name(tmp_path: Path) -> None:
    """BOLT numbers them by their addresses; each is laid out by its own counts."""
    need("clang-19")
    bolt = Path(LLVM["lld19"]) / "llvm-bolt"
    need(str(bolt))
    for name, text in SAME_NAME.items():
        (tmp_path / name).write_text(text)
    words = ("clang-19", "-O2", "-g", "-ffunction-sections", MAPS["clang-19"])
    run(*words, "-c", "a.c", "b.c", cwd=tmp_path, check=True)
    link = ("-fuse-ld=lld", f"-B{LLVM['lld19']}", "-Wl,-q", "-Wl,-T,against.ld", MAPS["clang-19"])
    run("clang-19", *link, "a.o", "b.o", "-o", "p", cwd=tmp_path, check=True)
    functions = read_functions(tmp_path / "p")
    assert functions.by_name["f"] == sorted(functions.by_name["f"], reverse=True)
    data = tmp_path / "p.fdata"
    run(bolt, "p", "--instrument", "-o", "counting", f"--instrumentation-file={data}", cwd=tmp_path, check=True)
    run(tmp_path / "counting")
    run(HUGEALIGN, "order", "--blocks", data, "-b", "p", "-o", "p.order", cwd=tmp_path, check=True)
    entries = orderfile.load(str(tmp_path / "p.order")).entries
    ran = {entry.file: (entry.samples, len(entry.blocks)) for entry in entries if entry.name == "f"}
    assert ran["b.c"][0] > 3000 > ran["a.c"][0]
    assert ran["b.c"][1] > 3
