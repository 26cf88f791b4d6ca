"""The LLVM pass plugin: the LLVM of a tool, and the plugin built for exactly that one.

A plugin runs inside the compiler, on the compiler's own classes; built for another version, it crashes the compiler.
So there is one file per LLVM, named after the version and a checksum of the plugin's sources and the LLVM's location.
A compiler cache that knows the plugin only by its name thus never takes an old one for a new one.

A list beside the plugin says which clang and lld get it when `hugealign` runs as the compiler
(`hugealign.wrapper.plugin_list`).
"""

import fcntl
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from glob import escape, glob

from hugealign.errors import HugealignError
from hugealign.io import native, replacing
from hugealign.io.descriptors import using
from hugealign.io.execution import finished
from hugealign.io.resources import directory
from hugealign.io.units import printable
from hugealign.wrapper import plugin_list as listed

_OLDEST, _OLDEST_LLD = 14, 15
_PREFIXES = ("/usr/lib/llvm-*", "/usr/lib/llvm/*", "/usr/lib*/llvm[0-9]*", "/opt/llvm*", "/usr/local", "/usr")
_TOOL = re.compile(r"(?:clang version|LLD) (\d+\.\d+\.\d+)")
_INSTALLED = re.compile(r"^InstalledDir: (/.*)$", re.MULTILINE)
_PACKAGE_VERSION = re.compile(r"^set\(LLVM_PACKAGE_VERSION (\d+\.\d+\.\d+)", re.MULTILINE)
#: Variables that people set for their own builds, not for this one.
_NOT_OURS = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "COMPILER_PATH", "HUGEALIGN_PROFILE")
#: The LLVM libraries that a tool loads; their version counts as much as the tool's.
_LIBRARIES = ("libLLVM", "libclang", "liblld")
_TOOL_SECONDS, _BUILD_SECONDS = 30, 900


class PluginError(HugealignError):
    """There is no plugin for this tool, or it cannot be built."""


@dataclass(frozen=True, slots=True)
class Llvm:
    """An LLVM installed under *prefix*; *cmake* is its directory of CMake files, empty without its headers."""

    version: str
    prefix: str
    cmake: str

    @property
    def major(self) -> int:
        """The part of the version that interfaces change with."""
        return int(self.version.partition(".")[0])

    @property
    def package(self) -> str:
        """Debian's package of the headers."""
        return f"llvm-{self.major}-dev"

    def plugin(self) -> str:
        """Return where the plugin for this LLVM lies, or will lie once it is built."""
        # Without symbolic links in the path, which others might redirect: readers of the list accept none.
        return os.path.join(os.path.realpath(listed.cache()), f"hugealign-{self.version}-{self._checksum()}.so")

    def tools(self) -> list[str]:
        """Return the real paths of its clang and, if lld loads plugins, its lld: only those of exactly this version."""
        names = ("clang", "ld.lld") if self.major >= _OLDEST_LLD else ("clang",)
        paths = [os.path.join(self.prefix, "bin", name) for name in names]
        return [os.path.realpath(path) for path in paths if os.path.exists(path) and _version(path)[0] == self.version]

    def _checksum(self) -> str:
        import hashlib

        digest = hashlib.sha256(os.fsencode(self.prefix))
        for path in sources():
            with open(path, "rb") as file:
                digest.update(hashlib.sha256(file.read()).digest())
        return digest.hexdigest()[:12]


def sources() -> list[str]:
    """Return the plugin's source files.  Raises PluginError if this installation lacks them."""
    place = directory("lld-plugin")
    paths = sorted(path for kind in ("*.cpp", "*.h", "CMakeLists.txt") for path in glob(os.path.join(place, kind)))
    if not paths:
        raise PluginError(f"the plugin's sources are not at {printable(place)}; reinstall hugealign")
    return paths


def of_tool(tool: str) -> Llvm:
    """Return the LLVM of *tool*, a clang or lld by its name or path.  Raises PluginError if it has none."""
    path, name = shutil.which(tool), printable(tool)
    if not path:
        raise PluginError(f"{name}: command not found")
    version, installed = _version(path)
    if not version:
        raise PluginError(f"{name} is neither clang nor lld: the plugin is for these; example: clang-19")
    paths = [path]
    if installed:  # clang says where it is, even behind a compiler cache's link
        paths.insert(0, os.path.join(installed, os.path.basename(tool)))
    prefixes = [os.path.dirname(os.path.dirname(os.path.realpath(each))) for each in paths]
    candidates = [each for prefix in prefixes for each in _at(prefix) if each.version == version]
    llvm = candidates[0] if candidates else Llvm(version, prefixes[0], "")
    if llvm.major < _OLDEST:
        raise PluginError(f"{name} is of LLVM {version}; the oldest that the plugin is for is {_OLDEST}")
    return llvm


def _version(path: str) -> tuple[str, str]:
    """Return the version of the clang or lld at *path* and the directory that clang says it is in; empty if neither."""
    try:
        output = finished((path, "--version"), _TOOL_SECONDS).stdout
    except OSError as error:
        raise PluginError(f"{printable(path)}: does not answer --version: {error.strerror}") from None
    version, installed = _TOOL.search(output), _INSTALLED.search(output)
    return version[1] if version else "", installed[1] if installed else ""


def installations() -> list[Llvm]:
    """Return the LLVMs with installed headers, and the ones of the clang and ld.lld on PATH, oldest first."""
    places = {os.path.realpath(path) for pattern in _PREFIXES for path in glob(pattern)}
    llvms = {llvm for place in places for llvm in _at(place)}
    for tool in ("clang", "ld.lld"):
        try:
            llvms.add(of_tool(tool))
        except PluginError:
            continue
    return sorted(llvms, key=lambda llvm: (*map(int, llvm.version.split(".")), llvm.prefix))


def _at(prefix: str) -> Iterator[Llvm]:
    """Yield the LLVM with headers under *prefix*, if there is one that is not too old."""
    for cmake in sorted(glob(os.path.join(escape(prefix), "lib*", "cmake", "llvm"))):
        try:
            with open(os.path.join(cmake, "LLVMConfig.cmake"), encoding="utf-8", errors="replace") as file:
                match = _PACKAGE_VERSION.search(file.read(1 << 20))
        except OSError:
            continue
        if match and int(match[1].partition(".")[0]) >= _OLDEST:
            yield Llvm(match[1], prefix, cmake)
            return


def build(llvm: Llvm) -> str:
    """Build the plugin for *llvm* unless it exists, list its tools, and return its path.  Raises PluginError."""
    target = llvm.plugin()
    if not os.path.exists(target):
        _build(llvm, target)
    try:
        _list(llvm, target)
    except OSError as error:
        raise PluginError(f"{printable(listed.cache())}: {error.strerror}") from None
    return target


def _list(llvm: Llvm, target: str) -> None:
    """Record in the list of tools that the plugin at *target* is for the tools of *llvm* as they are now."""
    from hugealign.system.libraries import resolve

    entries = []
    for tool in llvm.tools():
        try:
            libraries = [path for path in resolve(tool).paths if os.path.basename(path).startswith(_LIBRARIES)]
        except HugealignError:
            continue  # a script in front of a compiler, which may run another one tomorrow
        entries.append(listed.ListedPlugin(target, tool, listed.identity([tool, *libraries]), libraries))
    path = os.path.join(listed.cache(), listed.NAME)
    with using(os.open(listed.cache(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as place:
        fcntl.flock(place, fcntl.LOCK_EX)
        tools = {entry.tool for entry in entries}
        entries += [old for old in listed.read() if old.tool not in tools and os.path.exists(old.plugin)]
        text = "".join(entry.line() for entry in entries if entry.can_be_listed())
        replacing.write(path, os.fsencode(text), 0o600)


def _build(llvm: Llvm, target: str) -> None:
    if not llvm.cmake:
        raise PluginError(
            f"LLVM {llvm.version} has no headers in {printable(llvm.prefix)}; "
            f"install them (Debian: apt install {llvm.package})"
        )
    if not shutil.which("cmake"):
        raise PluginError("cmake is not installed (Debian: apt install cmake g++)")
    try:
        with using(native.cache()) as above, suppress(FileExistsError):
            os.mkdir(os.path.basename(listed.cache()), 0o700, dir_fd=above)
        with tempfile.TemporaryDirectory(prefix="building-", dir=listed.cache()) as place:
            _make(llvm, place)
            made = os.path.join(place, "hugealign.so")
            os.chmod(made, 0o700)  # whatever the umask: a file that others may write is not used
            os.rename(made, target)
    except OSError as error:
        message = f"{printable(listed.cache())}: {error.strerror}; set XDG_CACHE_HOME to another directory"
        raise PluginError(message) from None


def _make(llvm: Llvm, place: str) -> None:
    """Build the plugin in the directory *place* and check that clang can load it."""
    environment = {
        name: value for name, value in os.environ.items() if name not in _NOT_OURS and not name.startswith("CMAKE_")
    }
    source = directory("lld-plugin")
    configure = ("cmake", "-S", source, "-B", place, "-DCMAKE_BUILD_TYPE=Release", f"-DLLVM_DIR={llvm.cmake}")
    commands = [configure, ("cmake", "--build", place, "--parallel", str(os.cpu_count() or 1))]
    clang = os.path.join(llvm.prefix, "bin", "clang")
    if os.path.exists(clang):
        plugin = os.path.join(place, "hugealign.so")
        commands.append(
            (clang, f"-fpass-plugin={plugin}", "-xc", "-c", os.devnull, "-o", os.path.join(place, "nothing.o"))
        )
    for words in commands:
        try:
            done = finished(words, _BUILD_SECONDS, environment)
            lines = f"{done.stderr}\n{done.stdout}".splitlines()
            why = (
                next((line for line in lines if "rror" in line), f"status {done.returncode}") if done.returncode else ""
            )
        except OSError as error:
            why = error.strerror or ""
        if why:
            by_hand = shlex.join((*configure[:3], "-B", "build", *configure[5:]))
            raise PluginError(
                f"cannot build the plugin for LLVM {llvm.version}: {printable(why.strip())}; by hand: {by_hand}"
            )
