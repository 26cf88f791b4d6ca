"""The builds of a program that are timed: by the compiler and linker, by the peers, by hugealign.

All learn from one run of the program: the full profile is what BOLT's instrumentation counts, for every tool alike,
and the samples are those of perf's clock, without branches, as most virtual machines give them.  Each build is linked
four times with a first function of 0, 16, 32 and 48 bytes, since where code lies in a cache line alone can change the
time of a program by some per cent.
"""

import dataclasses
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from lab.bench import placements
from lab.bench.peers import builds
from lab.bench.peers.builds import BOLT, BOLT_BLOCKS
from lab.bench.peers.program import LLD
from lab.bench.peers.units import units
from lab.bench.placements import PLACEMENTS
from tests.support import HUGEALIGN, environment

#: Samples a second.  A run of some seconds gives the thousands that the guide requests.
_FREQUENCY = "4999"
_LLD = (*LLD, "-pie", "-Wl,--no-warn-symbol-ordering")


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A run of a program with *arguments*; *front* are the words of a command in front of it."""

    arguments: tuple[str, ...]
    front: tuple[str, ...] = ()

    def words(self, *program: str) -> list[str]:
        """Return the command that does it with *program*."""
        return [*self.front, *program, *self.arguments]


@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """A program that clang compiles at -O2 from *files* with *flags*, in *directory*, and links with *libraries*.

    Without files it is linked as others have compiled it.
    """

    name: str
    about: str
    directory: Path
    files: list[Path]
    flags: tuple[str, ...]
    libraries: tuple[str, ...]
    train: Run  #: what all builds learn from
    test: Run  #: what judges them
    once: Run  #: a short run of the same work as the judge's


@dataclasses.dataclass(frozen=True, slots=True)
class Build:
    """A build, linked with each of `PLACEMENTS` in front, and what it *learned* from."""

    title: str
    learned: str
    files: tuple[Path, ...]


_Link = Callable[[int, Path], None]


class Builder:
    """Makes the builds of a program, each command once: what an earlier run made of the same inputs is kept."""

    def __init__(self, sources: Sources, say: Callable[[str], object]) -> None:
        self.sources, self.directory, self._say = sources, sources.directory / "timed", say
        self.directory.mkdir(parents=True, exist_ok=True)
        for size in PLACEMENTS:
            source = self.directory / f"pad{size}.s"
            source.write_text(placements.source(size))
            self._run("gcc", "-c", source.name)

    def all(self) -> Iterator[Build]:
        """Yield all builds; the first is what the others are compared with."""
        plain = self._objects("plain")
        yield self._build("plain", "", lambda pad, path: self._link(path, pad, plain))
        yield self._build("huge, in the linker's order", "", lambda pad, path: self._ours(path, pad, plain))
        yield from self._ordered("", plain)
        yield from self._bolted("", plain)
        if not self.sources.files:
            return
        trained = self._objects("pgo", self._pgo())
        first = self._symbols("pgo", trained)
        yield self._build("PGO", "PGO", lambda pad, path: self._link(path, pad, trained, *self._listed(path, first)))
        ours = (str(HUGEALIGN),)
        yield self._build(
            "PGO, huge",
            "PGO",
            lambda pad, path: self._link(path, pad, trained, *self._listed(path, first), wrapper=ours),
        )
        yield from self._ordered("PGO, ", trained)
        yield from self._bolted("PGO, ", trained)

    # Commands

    def _run(self, *words: object) -> None:
        argv = list(map(str, words))
        done = subprocess.run(
            argv, cwd=self.directory, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(argv)[:2000]}\n{done.stderr.decode(errors='replace')[-2000:]}")

    def _build(self, title: str, learned: str, link: _Link) -> Build:
        self._say(title)
        word = "".join(c if c.isalnum() else "-" for c in f"{title}-{learned}").lower()
        paths = tuple(self.directory / f"{word}.{pad}" for pad in PLACEMENTS)
        for pad, path in zip(PLACEMENTS, paths, strict=True):
            link(pad, path)
        return Build(title, learned, paths)

    def _objects(
        self, name: str, *flags: str, wrapper: tuple[str, ...] = (), reads: tuple[Path, ...] = ()
    ) -> list[str]:
        self._say(f"{name}: objects")
        flags = (*self.sources.flags, "-fbasic-block-address-map", *flags)
        made = units(self.directory, f"{name}/", self.sources.files, flags, *wrapper, "clang-19", reads=reads)
        return list(made)

    def _link(self, path: Path, pad: int, objects: list[str], *flags: str, wrapper: tuple[str, ...] = ()) -> None:
        self._run(*wrapper, "gcc", *_LLD, f"pad{pad}.o", *objects, *self._libraries(), *flags, "-o", path.name)

    def _ours(self, path: Path, pad: int, objects: list[str], order: Path | None = None) -> None:
        wrapper = (str(HUGEALIGN), f"--profile={_padded(order, path)}") if order else (str(HUGEALIGN),)
        self._link(path, pad, objects, wrapper=wrapper)

    def _linked_in_order(self, objects: list[str], order: Path, pad: int, path: Path) -> None:
        self._ours(path, pad, objects, order)

    def _symbols(self, name: str, objects: list[str], *flags: str) -> list[str]:
        """Return the functions in the order in which lld itself puts those of *objects*."""
        probe = self.directory / f"{name}.probe"
        self._link(probe, 0, objects, *flags)
        listed = subprocess.run(["nm", "-n", probe], capture_output=True, text=True, check=True).stdout
        lines = (line.split() for line in listed.splitlines())
        return [fields[2] for fields in lines if len(fields) == 3 and fields[1] in "tT" and fields[2] != "pad"]

    def _listed(self, path: Path, order: list[str]) -> tuple[str, ...]:
        """Return lld's option for *order* with the first function in front of it."""
        listed = path.with_suffix(f"{path.suffix}.symbols")
        listed.write_text("".join(f"{name}\n" for name in ("pad", *order)))
        return (f"-Wl,--symbol-ordering-file={listed.name}",)

    # Profiles

    def _pgo(self) -> str:
        """Return clang's option with the profile of a training run of an instrumented build."""
        profile = self.directory / "pgo.profdata"
        objects = self._objects("instrumented", f"-fprofile-generate={self.directory}/pgo.raw")
        if not profile.exists():
            shutil.rmtree(self.directory / "pgo.raw", ignore_errors=True)
            path = self.directory / "instrumented.program"
            self._run("clang-19", *_LLD, "-fprofile-generate", *objects, *self._libraries(), "-o", path.name)
            self._train(path)
            self._run(BOLT.with_name("llvm-profdata"), "merge", "-o", profile.name, "pgo.raw")
        return f"-fprofile-use={profile}"

    def _libraries(self) -> list[str]:
        words = self.sources.libraries
        return [str(self.sources.directory / word) if word.endswith(".a") else word for word in words]

    def _train(self, path: Path, *front: str) -> None:
        argv = [*front, *self.sources.train.words(str(path))]
        done = subprocess.run(argv, cwd=self.sources.directory, capture_output=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(argv)}\n{done.stderr.decode(errors='replace')[-2000:]}")

    def _profiles(self, prefix: str, objects: list[str]) -> tuple[Path, Path, Path]:
        """Return BOLT's input of *objects*, the full profile of its training run, and the samples of one."""
        word = prefix.partition(",")[0].lower() or "plain"
        before = self.directory / f"{word}.relocations"
        full, samples = before.with_suffix(".fdata"), before.with_suffix(".samples")
        self._say(f"{word}: profiles")
        # No list keeps the order here: BOLT has one of its own.
        self._link(before, 0, objects, "-Wl,--emit-relocs")
        if not full.exists():
            counting = before.with_suffix(".counting")
            self._run(BOLT, before.name, "-instrument", f"--instrumentation-file={full}", "-o", counting.name)
            self._train(counting)
        if not samples.exists():
            record = ("perf", "record", "-q", "-e", "cpu-clock:u", "-F", _FREQUENCY, "-o", str(samples), "--")
            self._train(before, *record)
        return before, full, samples

    # Orders

    def _ordered(self, prefix: str, objects: list[str]) -> Iterator[Build]:
        before, full, samples = self._profiles(prefix, objects)
        for learned, profile in (("samples", samples), ("full", full)):
            order = before.with_suffix(f".{learned}.order")
            self._run(HUGEALIGN, "order", profile.name, "-b", before.name, "-o", order.name)
            link = partial(self._linked_in_order, objects, order)
            yield self._build(f"{prefix}hugealign, order", learned, link)
        if self.sources.files:
            order = before.with_suffix(".blocks.order")
            self._run(HUGEALIGN, "order", "--blocks", full.name, "-b", before.name, "-o", order.name)
            trained = (self._pgo(),) if prefix else ()
            wrapper = (str(HUGEALIGN), f"--profile={order}")
            divided = self._objects(f"{before.stem}-divided", *trained, wrapper=wrapper, reads=(order,))
            link = partial(self._linked_in_order, divided, order)
            yield self._build(f"{prefix}hugealign, blocks", "full", link)
        if not prefix:
            graph = _call_graph(full, before.with_suffix(".graph"))
            words = (f"-Wl,--call-graph-ordering-file={graph.name}", "-Wl,--call-graph-profile-sort=cdsort")
            first = self._symbols("cdsort", objects, *words)
            flags = (builds.MAX_PAGE, "-Wl,-z,separate-code")
            yield self._build(
                "lld, cdsort",
                "full",
                lambda pad, path: self._link(path, pad, objects, *flags, *self._listed(path, first)),
            )

    def _bolted(self, prefix: str, objects: list[str]) -> Iterator[Build]:
        before, full, samples = self._profiles(prefix, objects)
        flat = before.with_suffix(".flat.fdata")
        if not flat.exists():
            self._run(BOLT.with_name("perf2bolt"), before.name, "-nl", "-p", samples.name, "-o", flat.name)
        result = None
        for learned, data in (("full", full), ("samples", flat))[: 1 if prefix else 2]:
            placed = before.with_suffix(f".{learned}.functions")
            words = ("-reorder-functions=cdsort", *BOLT_BLOCKS[1:], f"-data={data.name}")
            self._run(BOLT, before.name, *words, f"-generate-function-order={placed.name}", "-o", "probe")
            functions = placed.read_text()

            def bolt(pad: int, path: Path, words: tuple[str, ...] = words, functions: str = functions) -> None:
                relocated = self.directory / f"{before.name}.{pad}"
                self._link(relocated, pad, objects, "-Wl,--emit-relocs")
                listed = path.with_suffix(f"{path.suffix}.functions")
                listed.write_text(f"pad\n{functions}")
                words = ("-reorder-functions=user", f"-function-order={listed.name}", *words[1:])
                self._run(BOLT, relocated.name, *words, "-o", path.name)

            build = self._build(f"{prefix}BOLT", learned, bolt)
            yield build
            result = result or build
        if result and not prefix:
            made = dict(zip(PLACEMENTS, result.files, strict=True))
            fix = (HUGEALIGN, "fix", "-o")
            yield self._build("BOLT, fix", "full", lambda pad, path: self._run(*fix, path.name, made[pad].name))


def _padded(order: Path, path: Path) -> Path:
    """Return a copy of *order* in which the function `pad` comes first."""
    result = path.with_suffix(f"{path.suffix}.order")
    result.write_text(placements.padded(order.read_text()))
    return result


def _call_graph(full: Path, path: Path) -> Path:
    """Write the calls in BOLT's profile *full* for lld's --call-graph-ordering-file; return *path*."""
    weights: dict[tuple[str, str], int] = {}
    for line in full.read_text().splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[5] == "0" and fields[1] != fields[4] and "/" in fields[4]:  # not a stub's
            pair = fields[1].partition("/")[0], fields[4].partition("/")[0]
            weights[pair] = weights.get(pair, 0) + int(fields[7])
    path.write_text("".join(f"{caller} {callee} {count}\n" for (caller, callee), count in weights.items()))
    return path
