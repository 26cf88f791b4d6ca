"""The programs: how each is linked, and its runs to learn from and to judge by."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from lab.bench.peers import generated, heldout, llvm
from lab.bench.peers.program import WORK, Program, compiled, printed, unpacked

_LLVM = Path("/usr/lib/llvm-19")
_DEBS = ("libclang-19-dev", "libpolly-19-dev")
#: Of clang, in an order that does not matter to a linker: they are one group.
_CLANG = (
    *("FrontendTool", "CodeGen", "StaticAnalyzerFrontend", "StaticAnalyzerCheckers", "StaticAnalyzerCore", "CrossTU"),
    *("Index", "RewriteFrontend", "Rewrite", "ToolingCore", "ARCMigrate", "ExtractAPI", "InstallAPI", "Frontend"),
    *("Driver", "Parse", "Serialization", "Sema", "Edit", "Analysis", "ASTMatchers", "AST", "APINotes", "Lex"),
    *("Basic", "Support"),
)
_COMPONENTS = (
    *("x86", "passes", "codegen", "lto", "coverage", "option", "frontendopenmp", "frontenddriver", "frontendhlsl"),
    *("windowsdriver", "irreader", "irprinter"),
)
_CC1 = (
    *("-triple", "x86_64-pc-linux-gnu", "-target-cpu", "x86-64", "-mrelocation-model", "pic", "-pic-level", "2"),
    *("-fgnuc-version=4.2.1", "-emit-obj", "-O2", "-vectorize-loops", "-vectorize-slp", "-w", "-x", "c++"),
    *("-std=c++20", "-fcxx-exceptions", "-fexceptions", "-o", "/dev/null"),
)


def _generated() -> Program:
    directory = WORK / "generated"
    words = tuple(generated.generate(directory))
    return Program(
        "generated",
        "A generated program of 29,298 functions, 25 MiB of text (`lab/bench/peers/generated.py`). It serves 10,000 "
        "kinds of requests, drawn from a Zipf distribution; each goes through some functions of some modules. The "
        "builds learn from 60,000 requests and are judged by 30,000 others.",
        directory,
        "gcc",
        words,
        ("1", "60000"),
        ("2", "30000"),
        ("3", "400000"),
        (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16),
        large=False,
    )


def clang_of_debian() -> Program:
    """Return clang, from the archives of Debian's packages."""
    directory = WORK / "clang"
    directory.mkdir(parents=True, exist_ok=True)
    root = unpacked(directory, _DEBS, "usr/lib/llvm-19/lib/libPolly.a") / "usr/lib/llvm-19"
    flags = ("-std=c++17", "-O1", "-fno-rtti", "-ffunction-sections", f"-I{root}/include", f"-I{_LLVM}/include")
    compiled(Path(__file__).with_name("compiler.cc"), directory / "compiler.o", "g++", *flags)
    for source in heldout.CXX:
        preprocess = ["clang-19", "-std=c++20", "-E", "-P", str(source), "-o", str(directory / f"{source.stem}.ii")]
        subprocess.run(preprocess, check=True)
    config = [shutil.which("llvm-config-19") or str(_LLVM / "bin" / "llvm-config"), "--link-static"]
    libraries = printed([*config, "--libs", *_COMPONENTS])
    # Two libraries are installed without their development packages.
    installed = {"-lzstd": "-l:libzstd.so.1", "-lxml2": "-l:libxml2.so.2"}
    system = [installed.get(word, word) for word in printed([*config, "--system-libs"])]
    archives = [os.path.relpath(root / "lib" / f"libclang{name}.a", directory) for name in _CLANG]
    words = (
        *("compiler.o", "-Wl,--start-group", *archives, "-Wl,--end-group"),
        *(f"-L{_LLVM}/lib", f"-L{os.path.relpath(root / 'lib', directory)}", *libraries, *system),
    )
    return Program(
        "clang",
        f"Clang 19, {llvm.ABOUT}. The builds learn from compiling `lab/bench/peers/containers.cc` at -O2 and are "
        "judged by `variant.cc`.",
        directory,
        "g++",
        words,
        (*_CC1, "containers.ii"),
        (*_CC1, "variant.ii"),
        (*_CC1, "containers.ii"),
        (0, 1, 2, 4, 6, 8, 12, 16),
        large=True,
    )


def _clang() -> Program:
    """Return clang with code that ran compiled here."""
    return llvm.compiled_again(clang_of_debian(), llvm.LLVM_19)


PROGRAMS: dict[str, Callable[[], Program]] = {"generated": _generated, "clang": _clang, **heldout.PROGRAMS}
