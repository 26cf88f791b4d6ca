"""The programs whose builds are timed, with the run that all learn from and the one that judges."""

from collections.abc import Callable

from lab.bench.peers.heldout import RUST, script_units, sqlite_units
from lab.bench.peers.program import WORK
from lab.bench.times.builds import Sources


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
    return Sources("sqlite", about, directory, files, flags, ("-lm", "-lz"), train, test, test[:2])


def _script() -> Sources:
    directory = WORK / "script"
    directory.mkdir(parents=True, exist_ok=True)
    files, flags = script_units(directory)
    train, test = ((f"{name}.rhai",) * times for name, times in (("train", 20), ("test", 8)))
    about = (
        f"Rhai 1.22, a scripting language (Rust {RUST}, by its bitcode). The builds learn from loops over numbers and "
        "arrays, and are judged by strings, maps, closures and exceptions (`lab/bench/peers/script-*.rhai`)"
    )
    return Sources("script", about, directory, files, flags, ("rest.a", "-lm"), train, test, test[:1])


PROGRAMS: dict[str, Callable[[], Sources]] = {"sqlite": _sqlite, "script": _script}
