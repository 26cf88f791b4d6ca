"""Find the shared libraries of a program as the dynamic linker would, without running anything.

ld.so(8) describes the search order, elf/dl-load.c of glibc the details.  Libraries from later dlopen calls, LD_PRELOAD
and LD_AUDIT are not searched for.
"""

import contextlib
import functools
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hugealign.elf.constants import EM_386
from hugealign.elf.dynamic import Dynamic, read_dynamic
from hugealign.elf.image import read_image
from hugealign.elf.machines import AARCH64, MACHINES, X86_64
from hugealign.errors import HugealignError
from hugealign.io.regular import opened

_CACHE = "/etc/ld.so.cache"
_CACHE_LIMIT = 1 << 26  # bytes to read of it; real ones have less than a tenth of a MiB
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_LIMIT = 4096  # libraries of one program; a hostile chain must end
_PLACES_LIMIT = 1 << 16  # paths to try for the libraries of one program; real programs need some hundred
_MULTIARCH = {row.number: row.triple for row in MACHINES.values()} | {EM_386: "i386-linux-gnu"}
_PLATFORMS = {row.number: row.name for row in (X86_64, AARCH64)} | {EM_386: "i686"}
#: Levels of the x86-64 psABI, and the flags in /proc/cpuinfo that each needs besides those of the level below.
_LEVELS = {
    "x86-64-v2": "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3",
    "x86-64-v3": "abm avx avx2 bmi1 bmi2 f16c fma movbe xsave",
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
}


#: Where a path is, and its real path, for a program that sees other files than we do.
Find = Callable[[str], tuple[str, str]]
#: Whether a file is 64-bit, whether it is little-endian, and its machine: equal in all files of a program.
_Kind = tuple[bool, bool, int]


@dataclass(frozen=True, slots=True)
class Libraries:
    """The result: real *paths* in loading order, and the names *missing*, each with the file that needs it."""

    paths: tuple[str, ...]
    missing: tuple[tuple[str, str], ...]


@dataclass(eq=False, slots=True)
class _Object:
    """A loaded file: *origin* is its directory, *loader* the object that needed it first."""

    path: str
    origin: str
    kind: _Kind
    dynamic: Dynamic
    identity: tuple[int, int]
    loader: "_Object | None" = None


@dataclass(slots=True)
class _Search:
    """The state of a search: how many places are *left* to try, and which files are *foreign*, of another kind.

    Without the limit, a search path of 64 KiB and 4,096 names would be half a billion places, and each of them could be
    the same file.
    """

    environ: Mapping[str, str]
    find: Find
    levels: list[str]
    cache: dict[str, list[str]] = field(default_factory=dict)
    left: int = _PLACES_LIMIT
    foreign: set[tuple[int, int]] = field(default_factory=set)


def _find(path: str) -> tuple[str, str]:
    return path, os.path.realpath(path)


def resolve(path: str, environ: Mapping[str, str] = os.environ, find: Find = _find) -> Libraries:
    """Return the libraries that the loader would map for the program or library at *path*.

    *find* says for a path, as the program sees it, where that is here, and its real path there; it raises OSError if
    nothing is there.  Raises NotElfError, MalformedElfError, FileError if *path* itself cannot be read.
    """
    here, real = find(path)
    with opened(here) as fd:
        program = _read(fd, path, real, None)
        # In a set-user-id program the dynamic linker ignores the environment.
        trusted = {} if os.fstat(fd).st_mode & 0o6000 else environ
    search = _Search(trusted, find, _levels(), _cache(find))
    objects = [program]
    if program.dynamic.interpreter and (loader := _candidate(program.dynamic.interpreter, program, search)):
        objects.append(loader)
    names = {name for item in objects[1:] for name in (item.dynamic.soname, item.path)}
    loaded = {item.identity for item in objects}
    missing: dict[str, str] = {}
    for needing in objects:  # it grows: breadth first, like the dynamic linker
        for name in needing.dynamic.needed:
            if not name or len(objects) > _LIMIT or name in names:
                continue
            library = _resolve_name(name, needing, search)
            if library is None:
                missing.setdefault(name, needing.path)
            elif library.identity not in loaded:
                objects.append(library)
                loaded.add(library.identity)
                names |= {library.dynamic.soname, library.path}
    return Libraries(tuple(o.path for o in objects[1:]), tuple(missing.items()))


def _resolve_name(name: str, needing: _Object, search: _Search) -> _Object | None:
    """Return the file that *name* means to *needing*; None if there is none, or the limit is reached."""
    if not search.left:
        return None
    for place in _places(name, needing, search):
        if not search.left:
            return None
        search.left -= 1
        if library := _candidate(place, needing, search):
            return library
    return None


def _read(fd: int, path: str, real: str, loader: _Object | None) -> _Object:
    image = read_image(fd)
    info = os.fstat(fd)
    kind = (image.is64, image.little, image.e_machine)
    # $ORIGIN is the real directory of the program, but for a library the directory where it was found.
    origin = os.path.dirname(os.path.abspath(path) if loader else real)
    return _Object(real, origin, kind, read_dynamic(fd, image), (info.st_dev, info.st_ino), loader)


def _candidate(path: str, needing: _Object, search: _Search) -> _Object | None:
    """Return the file at *path* if *needing* could be linked with it; the search skips all others."""
    with contextlib.suppress(HugealignError, OSError):
        here, real = search.find(os.path.abspath(path))
        with opened(here) as fd:
            info = os.fstat(fd)
            identity = info.st_dev, info.st_ino
            if identity in search.foreign:
                return None
            search.foreign.add(identity)
            library = _read(fd, path, real, needing)
            if library.kind == needing.kind:
                search.foreign.discard(identity)
                return library
    return None


def _places(name: str, needing: _Object, search: _Search) -> Iterator[str]:
    """Yield the paths to try for *name*."""
    if "/" in name:
        yield _expand(name, needing.origin, needing.kind)
        return
    loader: _Object | None = needing
    while loader and needing.dynamic.runpath is None:
        if loader.dynamic.rpath is not None and loader.dynamic.runpath is None:
            yield from _in(_split(loader.dynamic.rpath, ":", loader.origin, loader.kind), name, search)
        loader = loader.loader
    given = search.environ.get("LD_LIBRARY_PATH", "")
    yield from _in(_split(given, "[:;]", needing.origin, needing.kind), name, search)
    if needing.dynamic.runpath is not None:
        yield from _in(_split(needing.dynamic.runpath, ":", needing.origin, needing.kind), name, search)
    defaults = _defaults(needing.kind)
    for path in search.cache.get(name, ()):
        default = any(path.startswith(directory + "/") for directory in defaults)
        if _level(path) in ("", *search.levels) and not (needing.dynamic.nodeflib and default):
            yield path
    if not needing.dynamic.nodeflib:
        yield from _in(defaults, name, search)


def _cache(find: Find) -> dict[str, list[str]]:
    with contextlib.suppress(HugealignError, OSError):
        return ldconfig_cache(find(_CACHE)[0])
    return {}


def _in(directories: Sequence[str], name: str, search: _Search) -> Iterator[str]:
    for directory in directories:
        for level in search.levels:
            yield os.path.join(directory, "glibc-hwcaps", level, name)
        yield os.path.join(directory, name)


@functools.lru_cache(maxsize=64)  # the same for all names that a file needs
def _split(path: str, separator: str, origin: str, kind: _Kind) -> tuple[str, ...]:
    # An empty part means the current directory (fillin_rpath in elf/dl-load.c).
    return tuple(_expand(part, origin, kind) or "." for part in re.split(separator, path)) if path else ()


def _expand(path: str, origin: str, kind: _Kind) -> str:
    if "$" not in path:
        return path
    is64, _, machine = kind
    lib = f"lib/{_MULTIARCH.get(machine)}"
    if not os.path.isdir(f"/{lib}"):
        lib = "lib64" if is64 else "lib"
    values = {"ORIGIN": origin, "LIB": lib, "PLATFORM": _PLATFORMS.get(machine, "")}
    return re.sub(r"\$(?:(ORIGIN|LIB|PLATFORM)\b|\{(ORIGIN|LIB|PLATFORM)\})", lambda m: values[m[1] or m[2]], path)


def _defaults(kind: _Kind) -> list[str]:
    multiarch = _MULTIARCH.get(kind[2])
    names = [f"lib/{multiarch}"] if multiarch else []
    names += ["lib64", "lib"] if kind[0] else ["lib"]
    return [f"{top}/{name}" for name in names for top in ("", "/usr")]


def _levels() -> list[str]:
    """Return the subdirectories of glibc-hwcaps that this processor can use, the best first."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            flags = next((set(line.partition(":")[2].split()) for line in file if line.startswith("flags")), set())
    except OSError:
        return []
    levels: list[str] = []
    for name, needed in _LEVELS.items():
        if not flags.issuperset(needed.split()):
            break
        levels.insert(0, name)
    return levels


def ldconfig_cache(path: str = _CACHE) -> dict[str, list[str]]:
    """Return what ldconfig(8) has found: name -> paths, the best first; empty without its file.

    Format: ``struct cache_file_new`` in sysdeps/generic/dl-cache.h of glibc, in the machine's byte order; it may follow
    the old format.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(min(os.fstat(file.fileno()).st_size, _CACHE_LIMIT))
        data = data[data.index(_CACHE_MAGIC) :]
        count = min(struct.unpack_from("=I", data, 20)[0], len(data) // 24)
        entries = [struct.unpack_from("=iIIIQ", data, 48 + 24 * index) for index in range(count)]
        pairs = [(_at(data, key), _at(data, value)) for _, key, value, _, _ in entries]
    except (OSError, ValueError, struct.error):
        return {}
    paths: dict[str, list[str]] = {}
    for name, place in sorted(pairs, key=lambda pair: _level(pair[1]), reverse=True):  # the levels sort by name
        paths.setdefault(name, []).append(place)
    return paths


def _level(path: str) -> str:
    match = re.search(r"/glibc-hwcaps/([^/]+)/", path)
    return match[1] if match else ""


def _at(data: bytes, start: int) -> str:
    return os.fsdecode(data[start : data.index(b"\0", start)])
