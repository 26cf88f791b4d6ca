"""The shell commands of the manual, how each block says that it is run, and the directories that they run in.

The line before a block of commands is one of

    <!-- run in: PLACE -->     tests/build/test_manual.py runs it in a fresh copy of that directory, made here
    <!-- run by: TEST -->      that test reads the block from its document, and runs it
    <!-- not run: REASON -->
"""

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import spread
from tests.build.projects import write
from tests.support import ROOT, run

#: What was measured is apart from the manual: those pages say what was typed, and when.
_MEASURED = ROOT / "docs" / "measured"
DOCUMENTS = [
    path
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "examples/*/README.md",
        "lld-plugin/*.md",
        "tests/*.md",
        "lab/README.md",
    )
    for path in sorted(ROOT.glob(pattern))
    if _MEASURED not in path.parents
]
_BLOCK = re.compile(
    r"^(?:<!-- (run in|run by|not run): ([^\n]*) -->\n)?```(?:sh|bash|shell)\n(.*?)^```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of commands: where it stands, and *how* it is run, with a place, a test or a reason as *what*."""

    document: str
    line: int
    how: str
    what: str
    commands: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def blocks(path: Path) -> Iterator[Block]:
    """Yield the blocks of shell commands in the document at *path*."""
    text = path.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start(3))
        yield Block(str(path.relative_to(ROOT)), line, match[1] or "", match[2] or "", match[3])


# A server as each build system builds it.  Its hot functions lie apart from one another.
_FUNCTIONS, _EVERY = 800, 10
_SERVER = """\
#include <string.h>
#include <time.h>
{declarations}
static unsigned (*const table[])(unsigned) = {{ {names} }};
__attribute__((noinline)) unsigned serve(void) {{
    unsigned sum = 0, count = sizeof table / sizeof *table;
    for (unsigned i = 0; i < 20 * count; i++) sum = table[i % count](sum);
    return sum;
}}
__attribute__((noinline)) int shut_down(unsigned sum) {{ return sum == 1; }}
int main(int argc, char **argv) {{
    int once = argc > 1 && strcmp(argv[1], "--one-request") == 0;
    time_t end = time(NULL) + 2;
    unsigned sum;
    do sum = serve();
    while (!once && time(NULL) < end);
    return shut_down(sum);
}}
"""
_FILES = {
    "configure.ac": """\
AC_INIT([server], [1.0])
AM_INIT_AUTOMAKE([foreign])
AC_PROG_CC
AC_PROG_CXX
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
""",
    "Makefile.am": """\
bin_PROGRAMS = server
server_SOURCES = server.c functions.c
relink:
	rm -f server && $(MAKE) server
""",
    "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.21)
project(server C)
add_executable(server server.c functions.c)
""",
    "meson.build": "project('server', 'c')\nexecutable('server', 'server.c', 'functions.c')\n",
}
# What a reader of the first pages has at hand: a profile, a trace, an order, counts, packages.
_AT_HAND = """\
set -e
autoreconf -i
./configure -q CC=gcc
make -s
perf record -q -e cpu-clock -g -o perf.data -- ./server
hugealign order perf.data -b ./server -o server.order
hugealign profile reduce perf.data -b ./server -o new.counts
mkdir hosts && gzip -c new.counts >hosts/first.counts.gz
for which in old new; do
    mkdir -p $which/DEBIAN $which/usr/bin
    printf '%s: x\\n' Package Maintainer Description >$which/DEBIAN/control
    printf 'Version: 1\\nArchitecture: amd64\\n' >>$which/DEBIAN/control
done
cp server old/usr/bin
hugealign gcc *.o -o new/usr/bin/server
for which in old new; do dpkg-deb --build --root-owner-group $which $which.deb; done
mkdir build && mv new/usr/bin/server build
rm -r old new *.o autom4te.cache
hugealign plugin build clang-19
"""
_TRACE = "hugealign trace -o server.trace -- ./server --one-request\n"


def traced(block: Block) -> bool:
    """Return whether the *block* records a trace, or reads the one at hand."""
    return "hugealign trace" in block.commands or "server.trace" in block.commands


def emulates() -> bool:
    """Return whether QEMU takes plugins here, which traces need; Debian 13's is static."""
    return shutil.which("qemu-x86_64") is not None and "\n-plugin" in run("qemu-x86_64", "-h").stdout


def _server(directory: Path) -> None:
    hot = range(0, _FUNCTIONS, _EVERY)
    sources = {"server.c": spread.caller(_SERVER, hot), "functions.c": spread.functions(_FUNCTIONS, 6000)}
    write(directory, _FILES | sources)
    (directory / "lld-plugin").symlink_to(ROOT / "lld-plugin")
    commands = _AT_HAND + _TRACE * emulates()
    run("bash", "-c", commands, cwd=directory, check=True, XDG_CACHE_HOME=f"{directory}/cache")


def _first_steps(directory: Path) -> None:
    """What a reader has who has typed all of that page up to here."""
    typed = re.findall(
        r"^\$ (.*)$", (ROOT / "docs" / "tutorials" / "first-steps.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    run("bash", "-c", "\n".join(typed), cwd=directory)
    assert (directory / "server").exists()


PLACES: dict[str, Callable[[Path], None]] = {"server": _server, "first-steps": _first_steps}
