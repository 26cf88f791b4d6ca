"""The LLVM pass plugin: built for each LLVM, its own lit tests, what it does in links, and its traps."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hugealign import orderfile
from hugealign.orderfile import HOT, Entry
from tests.build.plugins import VERSIONS, Built, build, functions, hot_sections, order_file
from tests.build.projects import Settings
from tests.orders import path, vectors
from tests.support import HUGEALIGN, ROOT, SRC, environment, run

HELPER = "static __attribute__((noinline)) int helper(volatile int *x) { return *x * %s; }\n"
ONE = HELPER % "3" + "int two(int);\nint one(int x) { return helper(&x); }\nint cold_one(int x) { return x - 1; }\n"
PLUGIN = ROOT / "lld-plugin"
TWO = HELPER % "5" + "int two(int x) { return helper(&x); }\nint cold_two(int x) { return x - 2; }\n"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Two source files, each with a function ``helper`` of its own."""
    (tmp_path / "one.c").write_text(ONE)
    (tmp_path / "two.c").write_text(TWO)
    return tmp_path


# --- lit ---------------------------------------------------------------------------------------------------------


@pytest.mark.matrix
def test_lit(built: Built, tmp_path: Path) -> None:
    """The tests in lld-plugin/test; some need an lld that loads plugins."""
    if not (built.prefix / "bin" / "FileCheck").exists():
        pytest.skip(f"llvm-{built.major}-tools is not installed")
    parameters = {"llvm": built.prefix, "major": built.major, "plugin": built.plugin, "work": tmp_path}
    words = [f"-D{name}={value}" for name, value in parameters.items()]
    lit = "import sys; from lit.main import main; sys.exit(main())"
    done = run(sys.executable, "-c", lit, "-v", "-j2", *words, PLUGIN / "test")
    assert done.returncode == 0, done.stdout + done.stderr
    tests = [path for path in (PLUGIN / "test").iterdir() if path.suffix in (".ll", ".c", ".cpp")]
    needs_newer = [path for path in tests if "REQUIRES:" in path.read_text()]
    passed = len(tests) - (len(needs_newer) if int(built.major) < 15 else 0)
    assert done.stdout.count("PASS: ") == passed


# --- hugealign plugin --------------------------------------------------------------------------------------------


def test_paths_and_list(built: Built) -> None:
    settings: Settings = {"XDG_CACHE_HOME": str(built.cache)}
    for tool in (built.clang, f"clang++-{built.major}", f"ld.lld-{built.major}", built.prefix / "bin" / "clang"):
        done = run(HUGEALIGN, "plugin", "path", tool, **settings)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{built.plugin}\n", "")
    assert f"{built.prefix}  {built.plugin}\n" in run(HUGEALIGN, "plugin", "list", check=True, **settings).stdout
    assert built.plugin.name.startswith(f"hugealign-{built.major}.")
    assert [path.name for path in built.plugin.parent.iterdir() if path.suffix != ".so"] == ["tools"]


def test_behind_the_link_of_a_compiler_cache(newest: Built) -> None:
    link = Path("/usr/lib/ccache") / newest.clang
    if not link.exists():
        pytest.skip("ccache is not installed")
    done = run(HUGEALIGN, "plugin", "path", link, XDG_CACHE_HOME=str(newest.cache))
    assert done.stdout == f"{newest.plugin}\n"


def test_not_built(newest: Built, tmp_path: Path) -> None:
    done = run(HUGEALIGN, "plugin", "path", newest.clang, XDG_CACHE_HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.endswith(f"is not built; run: hugealign plugin build {newest.clang}\n")


@pytest.mark.parametrize(
    ("says", "message"),
    [
        (
            "gcc (Debian 12.2.0) 12.2.0",
            "fake is neither clang nor lld: the plugin is for these; example: clang-19",
        ),
        ("clang version 13.0.1", "fake is of LLVM 13.0.1; the oldest that the plugin is for is 14"),
        ("clang version 19.1.6", "LLVM 19.1.6 has no headers in {}; install them (Debian: apt install llvm-19-dev)"),
        ("clang version 77.1.0", "LLVM 77.1.0 has no headers in {}; install them (Debian: apt install llvm-77-dev)"),
    ],
)
def test_refused(says: str, message: str, tmp_path: Path) -> None:
    """A script stands in for compilers that are not installed here."""
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "fake"
    fake.write_text(f"#!/bin/sh\necho '{says}'\n")
    fake.chmod(0o755)
    path = f"{fake.parent}:{environment()['PATH']}"
    done = run(HUGEALIGN, "plugin", "build", "fake", PATH=path, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"hugealign: error: {message.format(tmp_path)}\n"
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("/InstalledDir/d", "is not built"),
        ("/InstalledDir/d; s/19[.]1[.][0-9]/19.1.99/", "LLVM 19.1.99 has no headers"),
    ],
)
def test_an_llvm_elsewhere_is_another(newest: Built, change: str, message: str, tmp_path: Path) -> None:
    """Of the same number its build may differ; of another number than its headers it is refused.

    Links and a script stand in for an installation of the user's own.
    """
    (tmp_path / "bin").mkdir()
    clang = tmp_path / "bin" / "clang"
    clang.write_text(f'#!/bin/sh\nexec {newest.clang} "$@" | sed "{change}"\n')
    clang.chmod(0o755)
    (tmp_path / "lib").symlink_to(newest.prefix / "lib")
    action = "path" if message == "is not built" else "build"
    done = run(HUGEALIGN, "plugin", action, clang, XDG_CACHE_HOME=str(newest.cache))
    assert (done.returncode, done.stdout) == (3, "")
    assert message in done.stderr


def test_a_build_that_fails_leaves_nothing(newest: Built, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cmake").write_text("#!/bin/sh\necho 'CMake Error: the compiler is broken'\nexit 1\n")
    (tmp_path / "bin" / "cmake").chmod(0o755)
    path = f"{tmp_path / 'bin'}:{environment()['PATH']}"
    done = run(HUGEALIGN, "plugin", "build", newest.clang, PATH=path, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert (done.returncode, done.stdout) == (3, "")
    assert "CMake Error: the compiler is broken; by hand: cmake -S " in done.stderr
    assert list((tmp_path / "cache" / "hugealign" / "lld-plugin").iterdir()) == []


# --- another LLVM's plugin ---------------------------------------------------------------------------------------


def test_a_umask_that_lets_the_group_write(newest: Built, tmp_path: Path) -> None:
    """And a cache behind a link, as on a cluster: the plugin is used all the same."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cmake").write_text(
        f'#!/bin/sh\n[ "$1" = --build ] || {{ cp {newest.plugin} "$4/hugealign.so" && chmod 775 "$4/hugealign.so"; }}\n'
    )
    (tmp_path / "bin" / "cmake").chmod(0o755)
    (tmp_path / "disk").mkdir(mode=0o755)
    (tmp_path / "home").symlink_to("disk")
    settings = environment(XDG_CACHE_HOME=f"{tmp_path}/home/cache", PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    words = (HUGEALIGN, "plugin", "build", newest.clang)
    built = run("sh", "-c", 'umask 002; exec "$@"', "sh", *words, env=settings, check=True).stdout
    (row,) = (
        row for row in run(HUGEALIGN, "plugin", "list", env=settings).stdout.splitlines() if str(newest.prefix) in row
    )
    assert row.endswith(f"  {built.strip()}")
    assert built.startswith(f"{tmp_path}/disk/cache/hugealign/lld-plugin/")


@pytest.mark.matrix
def test_plugin_of_another_llvm(cache: Path, work: Path) -> None:
    """It fails in any case; where LLVM can say what it is (16 and newer), in one line and without a crash."""
    old, new = (build(major, cache) for major in VERSIONS)
    (work / "two.o").write_text("untouched")
    done = run(new.clang, f"-fpass-plugin={old.plugin}", "-c", work / "two.c", "-o", work / "two.o")
    assert done.returncode == 1
    assert done.stderr.startswith(
        "hugealign: error: this plugin is for LLVM 14, not for LLVM 19; the right one: hugealign"
    )
    assert "Stack dump" not in done.stderr
    run(new.clang, "-flto", "-c", work / "two.c", "-o", work / "two.o", check=True)
    words = (f"--load-pass-plugin={old.plugin}", "-shared", work / "two.o", "-o", work / "out")
    done = run(f"ld.lld-{new.major}", *words)
    assert done.returncode != 0
    assert "this plugin is for LLVM 14, not for LLVM 19" in done.stderr
    done = run(old.clang, f"-fpass-plugin={new.plugin}", "-c", work / "two.c", "-o", work / "two.o")
    assert done.returncode != 0
    assert "undefined symbol" in done.stderr


# --- what it does ------------------------------------------------------------------------------------------------


READER = """
#include "order_file.h"
#include <cstdio>
#include <iostream>
#include <string>
int main(int Argc, char **Argv) {
    for (int I = 1; I < Argc; ++I) {
        const hugealign::OrderFile Order(Argv[I]);
        std::printf("%s\\n", Order.error().str().c_str());
        for (std::string Name; std::getline(std::cin, Name, '/') && !Name.empty();)
            std::printf("%d", Order.contains(Name));
        std::printf("\\n");
    }
}
"""


def test_order_files_that_every_reader_accepts_or_refuses(built: Built, tmp_path: Path) -> None:
    """Those of tests/orders; of the functions in them, those are hot that our own reader says are."""
    (tmp_path / "reader.cpp").write_text(READER)
    config = [built.prefix / "bin/llvm-config", "--cxxflags", "--ldflags", "--libs"]
    words = run(*config, check=True).stdout.split()
    sources = (tmp_path / "reader.cpp", PLUGIN / "order_file.cpp")
    run(built.clang.replace("clang", "clang++"), f"-I{PLUGIN}", *sources, *words, "-o", tmp_path / "reader", check=True)
    accepted, refused = vectors("accept"), vectors("reject")
    asked, hot = [], []
    for name in accepted:
        entries = [entry for entry in orderfile.load(str(path("accept", name))).entries if entry.name]
        named = [(alias, entry.kind == HOT) for entry in entries for alias in (entry.name, *entry.aliases)]
        asked.append("".join(f"{alias}/" for alias, _ in named) + "/")
        hot.append("".join(str(int(any(kind for other, kind in named if other == alias))) for alias, _ in named))
    files = [*(path("accept", name) for name in accepted), *(path("reject", name) for name in refused)]
    given = "".join([*asked, *("/" for _ in refused)]).encode("utf-8", "surrogateescape")
    done = subprocess.run([tmp_path / "reader", *files], input=given, stdout=subprocess.PIPE, check=True)
    answers = done.stdout.decode().splitlines()
    assert dict(zip(accepted, answers[1::2], strict=False)) == dict(zip(accepted, hot, strict=True))
    messages = dict(zip(files, answers[::2], strict=True))
    assert [message for message in list(messages.values())[: len(accepted)] if message] == []
    for name, expected in refused.items():
        message = "is not an order file: " if expected == "first line" else f"line {expected}: "
        assert messages[path("reject", name)].startswith(message), name


@pytest.mark.parametrize("options", ["-O0", "-O2", "-O2 -flto", "-O2 -flto=thin", "-Os -g -ffunction-sections"])
def test_a_program_with_all_functions_hot_runs(built: Built, options: str, bulk: Path, tmp_path: Path) -> None:
    words = options.split()
    if built.major == "14" and "-flto=thin" in words:
        pytest.skip("ThinLTO of LLVM 14 loses the resolver of an ifunc, without the plugin too")
    shutil.copy(SRC / "features.cc", tmp_path / "features.cc")
    clang = built.clang.replace("clang", "clang++")
    run(clang, "-fPIC", "-c", tmp_path / "features.cc", "-o", tmp_path / "plain.o", check=True)
    order = order_file(tmp_path / "order", *(Entry(name) for name in functions(tmp_path / "plain.o")))
    target = built.compile(tmp_path / "features.cc", *words, "-fPIC", order=order)
    if "-flto" not in options:
        assert len(hot_sections(target)) >= 5
    load = [f"-Wl,--load-pass-plugin={built.plugin}"] if int(built.major) >= 15 and "-flto" in options else []
    link = (clang, *words, "-fuse-ld=lld", target, bulk, *load, "-pthread", "-o", tmp_path / "out")
    run(*link, check=True, HUGEALIGN_PROFILE=str(order))
    assert run(tmp_path / "out").returncode == 0


def test_linkers_without_an_order(newest: Built, work: Path) -> None:
    """GNU ld and gold put ``.text.hot.*`` together by themselves; lld does where an option keeps the prefix."""
    order = order_file(work / "order", Entry("cold_one"), Entry("two"))
    objects = [newest.compile(work / f"{name}.c", order=order) for name in ("one", "two")]
    for linker, first in (("bfd", 2), ("gold", 2)):
        run("gcc", f"-fuse-ld={linker}", "-shared", "-nostdlib", *objects, "-o", work / linker, check=True)
        assert set(functions(work / linker)[:first]) == {"cold_one", "two"}, linker
    run(
        newest.prefix / "bin/ld.lld",
        "-shared",
        "-z",
        "keep-text-section-prefix",
        *objects,
        "-o",
        work / "lld",
        check=True,
    )
    assert set(functions(work / "lld", ".text.hot")) == {"cold_one", "two"}


def test_symbol_order_and_a_namesake(newest: Built, work: Path) -> None:
    """lld's symbol order knows no source files: the other `helper` moves too, but not all of its object's code."""
    order = order_file(work / "order", Entry("helper", file="two.c"))
    objects = [newest.compile(work / f"{name}.c", order=order) for name in ("two", "one")]
    assert [hot_sections(path) for path in objects] == [{"helper"}, set()]
    (work / "symbols").write_text("helper\n")
    words = ("--symbol-ordering-file", work / "symbols", "-shared", *objects, "-o", work / "out")
    run(newest.prefix / "bin/ld.lld", *words, check=True)
    assert functions(work / "out") == ["helper", "helper", "two", "cold_two", "one", "cold_one"]
    script = "SECTIONS { .hugealign.hot : { *(.text.hot.helper) } } INSERT BEFORE .text;\n"
    (work / "script").write_text(script)
    run(newest.prefix / "bin/ld.lld", "-T", work / "script", "-shared", *objects, "-o", work / "out", check=True)
    assert functions(work / "out", ".hugealign.hot") == ["helper"]


def test_nothing_is_marked_where_lld_loads_no_plugin(built: Built, work: Path) -> None:
    """ThinLTO's names of local functions hang on what a module holds: LLVM 14 leaves it as it is."""
    order = order_file(work / "order", Entry("helper"), Entry("one"))
    marked = built.compile(work / "one.c", "-flto=thin", order=order).read_bytes()
    plain = built.compile(work / "one.c", "-flto=thin", order=None).read_bytes()
    assert (marked == plain) == (int(built.major) < 15)


# --- caches ------------------------------------------------------------------------------------------------------
