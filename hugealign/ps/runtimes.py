"""Code without a file: which runtime compiled it, and what makes it lie on huge pages.  Pure.

What is said of a runtime was measured (docs/live.md), on the version that is named there.
"""

import functools
import re
from dataclasses import dataclass

from hugealign.units import printable


@dataclass(frozen=True, slots=True)
class Runtime:
    """A *name*, and by which *programs* and *libraries* it is known: patterns of whole base names.

    *option* makes its code huge from the start of the process.  *room* is one that gives the code windows which
    `hugealign adapt` can then make huge.  *never* says why neither can be done.
    """

    name: str
    programs: str = "(?!)"
    libraries: str = "(?!)"
    option: str = ""
    room: str = ""
    never: str = ""


RUNTIMES = (
    Runtime("HotSpot", libraries=r"libjvm\.so", option="-XX:+UseTransparentHugePages"),
    Runtime(
        "V8",
        programs="node|nodejs|chrome|chromium|electron|deno",
        libraries=r"libnode\.so.*|libv8.*\.so.*",
        never="V8 keeps it in pieces of 240 KiB with guards between; node --use-largepages=on is for its own text",
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


@functools.lru_cache(maxsize=64)  # processes of a program execute the same files
def runtime(exe: str, files: tuple[str, ...]) -> Runtime | None:
    """Return the runtime whose code it is that the program *exe*, which executes *files*, has without a file."""
    program, names = _base(exe), [_base(path) for path in files]
    for one in RUNTIMES:
        if re.fullmatch(one.programs, program) or any(re.fullmatch(one.libraries, name) for name in names):
            return one
    return None


def code_name(found: Runtime | None) -> str:
    """Return what the code without a file of *found* is called."""
    return f"{found.name} code" if found else "code without a file"


def why_none(found: Runtime | None) -> str:
    """Return why code of *found* has no window that could be huge."""
    return found.never if found and found.never else f"{code_name(found)} lies in no whole window"


def mend(found: Runtime | None, target: str, *, windows: bool) -> str:
    """Return what makes the code of *found* huge, which has *windows* or none, or nothing.

    *target* is what `hugealign adapt` knows its processes by.
    """
    if found is None or found.never:
        return f"run: hugealign adapt {target}" if windows and found is None else ""
    option = f"start it with {found.option or found.room}" if found.option or found.room else ""
    if not windows:
        return option
    return f"run: hugealign adapt {target}" + (f", or {option}" if found.option else "")


def _base(path: str) -> str:
    return printable(path.rpartition("/")[2])
