"""The programs whose builds are timed, with the run that all learn from and the one that judges."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from lab.bench.peers import programs
from lab.bench.peers.heldout import RUST, script_units, sqlite_units
from lab.bench.peers.program import WORK
from lab.bench.sources import sources
from lab.bench.times import makefiles, postgres
from lab.bench.times.builds import Run, Sources

_HERE = Path(__file__).parent


def _sqlite() -> Sources:
    directory = WORK / "sqlite"
    directory.mkdir(parents=True, exist_ok=True)
    files, flags = sqlite_units(directory)
    train, test = (
        (":memory:", *(f".read {name}.sql", ".open :memory:") * times) for name, times in (("train", 20), ("test", 8))
    )
    about = (
        "SQLite's shell of Debian's source package (C). The builds learn from inserts, an index and aggregates, and "
        "are judged by joins, windows, triggers and a vacuum (`lab/bench/peers/sqlite-*.sql`)"
    )
    return Sources("sqlite", about, directory, files, flags, ("-lm", "-lz"), Run(train), Run(test), Run(test[:2]))


def _script() -> Sources:
    directory = WORK / "script"
    directory.mkdir(parents=True, exist_ok=True)
    files, flags = script_units(directory)
    train, test = ((f"{name}.rhai",) * times for name, times in (("train", 20), ("test", 8)))
    about = (
        f"Rhai 1.22, a scripting language (Rust {RUST}, by its bitcode). The builds learn from loops over numbers and "
        "arrays, and are judged by strings, maps, closures and exceptions (`lab/bench/peers/script-*.rhai`)"
    )
    libraries = ("rest.a", "-lm")
    return Sources("script", about, directory, files, flags, libraries, Run(train), Run(test), Run(test[:1]))


def _ruby() -> Sources:
    directory = WORK / "ruby"
    directory.mkdir(parents=True, exist_ok=True)
    files, flags, libraries = _ruby_units(directory)
    for name in ("train", "test"):
        shutil.copyfile(_HERE / f"ruby-{name}.rb", directory / f"{name}.rb")
    about = (
        "The interpreter of Ruby 3.1, without its extensions (`miniruby` of Debian's source package, C). The builds "
        "learn from text, hashes and methods, and are judged by numbers, structures, patterns and exceptions "
        "(`lab/bench/times/ruby-*.rb`)"
    )
    train, test, once = (
        Run((f"{name}.rb", times)) for name, times in (("train", "300"), ("test", "40"), ("test", "4"))
    )
    return Sources("ruby", about, directory, files, flags, libraries, train, test, once)


def _ruby_units(directory: Path) -> tuple[list[Path], tuple[str, ...], tuple[str, ...]]:
    """Return the sources of miniruby, fetched and built once, and the flags and libraries that they need."""
    sources(directory, ["ruby3.1"])
    tree = directory / "ruby3.1" / "tree"
    without = ("--disable-install-doc", "--disable-yjit", "--disable-shared", "--without-gmp")
    makefiles.build(directory, tree, without, ("miniruby",))
    found = makefiles.linked(directory, "miniruby")
    every = [word for words in found.words for word in words if word.startswith(("-D", "-I", "-f", "-std"))]
    flags = dict.fromkeys(every)
    places = [f"-I{tree / word[2:]}" if word.startswith("-I") else word for word in flags]
    return found.sources, tuple(places), tuple(word for word in found.link if word.startswith("-l"))


def _postgres() -> Sources:
    directory = WORK / "postgres"
    directory.mkdir(parents=True, exist_ok=True)
    files, flags, libraries = postgres.units(directory)
    train, test, once = postgres.runs(directory)
    about = (
        "PostgreSQL 15 (C), without clients: `postgres --single`, start and end included. The builds learn from "
        "selects by key, joins and aggregates, and are judged by windows, texts, JSON, arrays and recursion "
        "(`lab/bench/times/postgres.py`)"
    )
    return Sources("postgres", about, directory, files, flags, libraries, train, test, once)


def _clang() -> Sources:
    program = programs.clang_of_debian()
    words = tuple(map(_absolute, program.words))
    about = (
        "Clang 19 (C++), linked from Debian's archives: nothing of it is compiled here, so no build has PGO "
        "and no blocks are moved. The builds learn from compiling `lab/bench/peers/containers.cc` at -O2, and "
        "are judged by `variant.cc`"
    )
    train, test = Run(program.train), Run(program.test)
    return Sources("clang", about, program.directory, [], (), (*words, "-lstdc++"), train, test, test)


def _absolute(word: str) -> str:
    """Return a linker's *word* with an absolute path where it has a relative one, from the directory of clang."""
    option, path = ("-L", word[2:]) if word.startswith("-L") else ("", word)
    return f"{option}{os.path.join(WORK / 'clang', path)}" if option or path.endswith((".a", ".o")) else word


PROGRAMS: dict[str, Callable[[], Sources]] = {
    "sqlite": _sqlite,
    "script": _script,
    "ruby": _ruby,
    "postgres": _postgres,
    "clang": _clang,
}
