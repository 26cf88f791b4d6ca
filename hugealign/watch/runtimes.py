"""Code without a file: which runtime compiled it, and its options for huge pages.  Pure.

The statements about each runtime were measured (docs/guides/compiled-code.md), on the versions named there.
"""

import functools
import re

from hugealign.io.units import printable
from hugealign.records import Record


class Runtime(Record):
    """A *name*, and the *programs* and *libraries* that reveal it: patterns of whole base names.

    *option* makes its code huge from the start of the process.  *room* is an option that gives the code whole windows,
    which `hugealign adapt` can then make huge.
    """

    name: str
    programs: str = "(?!)"
    libraries: str = "(?!)"
    option: str = ""
    room: str = ""


RUNTIMES = (
    Runtime("HotSpot", libraries=r"libjvm\.so", option="-XX:+UseTransparentHugePages"),
    Runtime(
        "V8",
        programs="node|nodejs|chrome|chromium|electron|deno",
        libraries=r"libnode\.so.*|libv8.*\.so.*",
    ),
    Runtime("PHP", programs=r"php[\d.]*|php-(cgi|fpm)[\d.]*", libraries=r"libphp[\d.]*\.so.*"),
    Runtime(
        "LuaJIT",
        programs="luajit.*",
        libraries=r"libluajit-.*\.so.*",
        room="-Osizemcode=4096 -Omaxmcode=16384 (jit.opt.start in a program)",
    ),
    Runtime(".NET", libraries=r"libclrjit\.so|libcoreclr\.so"),
    Runtime("Erlang", programs=r"beam\.smp|beam"),
    Runtime("PostgreSQL's LLVM", libraries=r"llvmjit\.so"),
)


@functools.lru_cache(maxsize=64)  # all processes of a program execute the same files
def runtime(exe: str, files: tuple[str, ...]) -> Runtime | None:
    """Return the runtime that compiled the code without a file of the program *exe*, which executes *files*."""
    program, names = _base(exe), [_base(path) for path in files]
    for candidate in RUNTIMES:
        if re.fullmatch(candidate.programs, program) or any(re.fullmatch(candidate.libraries, name) for name in names):
            return candidate
    return None


def _base(path: str) -> str:
    return printable(path.rpartition("/")[2])
