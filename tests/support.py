"""Shared by the tests: running commands, the available compilers and linkers, and an independent view of ELF files."""

import argparse
import datetime as dt
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from hugealign.diagnosis.refusal import diagnosis_of
from hugealign.diagnosis.render import remedy, sentence
from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.errors import HugealignError

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / "bin"
HUGEALIGN = BIN / "hugealign"
SRC = ROOT / "tests" / "link" / "src"
#: A program with more than a window of text: the system's Python, not one that a version manager built.
PYTHON = Path("/usr/bin/python3").resolve()
PAGE = 2 << 20
#: pyelftools' names for the feature bits of IBT, SHSTK, BTI, PAC, GCS; linkers keep those that all inputs have.
FEATURES = ("GNU_PROPERTY_X86_FEATURE_1_AND", "GNU_PROPERTY_AARCH64_FEATURE_1_AND", 0xC0000000, 0xC0000002)
LLVM = {"lld14": "/usr/lib/llvm-14/bin", "lld19": "/usr/lib/llvm-19/bin"}


class MissingError(Exception):
    """Something that is needed cannot be had here; the message says why.  A test that meets it is skipped."""


def environment(**changes: str) -> dict[str, str]:
    """A user's environment: bin/ on PATH, no HUGEALIGN_* except those in *changes*, messages in English."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HUGEALIGN_", "_HUGEALIGN"))}
    return kept | {"PATH": f"{BIN}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"} | changes


def run(
    *argv: object, cwd: Path | None = None, env: dict[str, str] | None = None, check: bool = False, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run a command and return its output and status; *settings* are variables to add to the environment."""
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env=(environment() if env is None else env) | settings,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        stdin=subprocess.DEVNULL,
        timeout=300,
        check=False,
    )
    assert not check or done.returncode == 0, f"{argv}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def made_here() -> str:
    """Return when and where a page of figures is made."""
    release = platform.release().partition("-")[0]
    return f"{dt.datetime.now(tz=dt.UTC).date()}, Linux {release}, {platform.machine()}, {os.cpu_count()} processors"


def page_to_write(about: str | None) -> Path:
    """Return the one word of the command line: the page that a script writes; *about* is its docstring."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("page", type=Path, metavar="FILE", help="the page to write")
    page: Path = parser.parse_args().page
    return page


@contextmanager
def refused(code: str, **facts: int | str) -> Iterator[None]:
    """Expect a refusal with *code* and *facts*, or another error that carries them."""
    result = None
    try:
        yield
    except HugealignError as error:
        result = diagnosis_of("", error)
    assert result, f"not refused: {code}"
    assert (result.code, dict(result.facts)) == (code, facts)


def worded(code: str, **facts: int | str) -> str:
    """Return what is printed of a diagnosis, before its remedy: tests of text name codes and facts."""
    return sentence(Diagnosis(code, "", facts))


#: At the end of the line about a link that was left alone.
MORE_OF_A_LINK = "; HUGEALIGN_DEBUG=1 shows what the link did"


def advised(kind: str, *argv: object, facts: dict[str, int | str] | None = None, **fields: Any) -> str:
    """Return what is printed of a remedy: tests of text name its kind, its command and its fields."""
    return remedy(Remedy(kind, tuple(map(str, argv)), **fields), facts)


def steps(work: Callable[[], object]) -> int:
    """Run *work*; return how many lines of Python it executed: its cost on any machine, however busy that is."""
    count = 0

    def line(_frame: FrameType, event: str, _value: object) -> Any:
        nonlocal count
        count += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def lacking(*words: str) -> str | None:
    """The compiler in the *words* of a command, or the linker that they select, whichever is not installed."""
    compiler = shutil.which(words[0])
    if not compiler:
        return words[0]
    linker = next((word.partition("=")[2] for word in words if word.startswith("-fuse-ld=")), None)
    if not linker:
        return None
    target = words[0].rpartition("gcc")[0] if linker in ("bfd", "gold") else ""
    where = next((f"{word[2:]}/" for word in words if word.startswith("-B")), "")
    tool = f"{where}{target}ld.{linker}"
    # clang looks next to itself first.
    path = f"{Path(compiler).resolve().parent}{os.pathsep}{os.environ['PATH']}"
    return None if shutil.which(tool, path=path) else tool


def need(*tools: str) -> None:
    """Skip the test unless all *tools* are installed."""
    for tool in tools:
        if not shutil.which(tool):
            _skip(tool)


def need_compiler(*words: str) -> None:
    """Skip the test unless the compiler in the *words* of a command is installed, and the linker that they select."""
    if missing := lacking(*words):
        _skip(missing)


def _skip(missing: str) -> NoReturn:
    import pytest  # not for the guests in virtual machines, nor for the demo

    pytest.skip(f"{missing} is not installed")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler and a linker, as words for its command line."""

    name: str
    cc: str
    flags: tuple[str, ...]

    @property
    def cxx(self) -> str:
        return self.cc.replace("clang", "clang++").replace("gcc", "g++")

    @property
    def linker(self) -> str:
        return self.name.split("-")[-1]

    def command(self, *words: object) -> list[str]:
        return [str(word) for word in (self.cc, *self.flags, *words)]

    def missing(self) -> str | None:
        """The tool that is missing here, or None."""
        version = [f"-B{LLVM[self.linker]}"] if self.linker in LLVM else []
        return lacking(self.cc, *self.flags, *version) or lacking(self.cxx)

    def needed(self) -> "Toolchain":
        """Return itself; skip the test if a part is not installed."""
        if missing := self.missing():
            _skip(missing)
        return self


TOOLCHAINS = (
    Toolchain("gcc-bfd", "gcc", ("-fuse-ld=bfd",)),
    Toolchain("gcc-gold", "gcc", ("-fuse-ld=gold",)),
    Toolchain("gcc-lld14", "gcc", ("-fuse-ld=lld", f"-B{LLVM['lld14']}")),
    Toolchain("gcc-lld19", "gcc", ("-fuse-ld=lld", f"-B{LLVM['lld19']}")),
    Toolchain("gcc-mold", "gcc", ("-fuse-ld=mold",)),
    Toolchain("clang14-lld14", "clang-14", ("-fuse-ld=lld",)),
    Toolchain("clang19-lld19", "clang-19", ("-fuse-ld=lld",)),
    Toolchain("clang19-bfd", "clang-19", ("-fuse-ld=bfd",)),
    Toolchain("clang19-mold", "clang-19", ("-fuse-ld=mold",)),
)


class Elf:
    """An ELF file as pyelftools sees it: nothing here uses hugealign's own reader."""

    def __init__(self, path: Path) -> None:
        from elftools.elf.elffile import ELFFile

        with path.open("rb") as stream:
            elf = ELFFile(stream)
            self.type: str = elf["e_type"]
            self.segments = [dict(s.header) for s in elf.iter_segments()]
            self.sections = {s.name: dict(s.header) for s in elf.iter_sections()}
        self.path = path
        self.size = path.stat().st_size

    @property
    def data(self) -> bytes:
        return self.path.read_bytes()

    @property
    def loads(self) -> list[dict[str, int]]:
        return [s for s in self.segments if s["p_type"] == "PT_LOAD"]

    @property
    def text(self) -> list[dict[str, int]]:
        return [s for s in self.loads if s["p_flags"] & 1]

    def has(self, p_type: str) -> bool:
        return any(s["p_type"] == p_type for s in self.segments)

    def guards(self) -> dict[str, object]:
        """The program's protections: equal for two links with the same protections."""
        from elftools.elf.elffile import ELFFile

        with self.path.open("rb") as stream:
            elf = ELFFile(stream)
            dynamic = elf.get_section_by_name(".dynamic")
            tags = [(tag.entry.d_tag, tag.entry.d_val) for tag in dynamic.iter_tags()] if dynamic else []
            notes = elf.get_section_by_name(".note.gnu.property")
            properties = [p for note in (notes.iter_notes() if notes else ()) for p in note["n_desc"]]
        relro = next((s for s in self.segments if s["p_type"] == "PT_GNU_RELRO"), None)
        # The loader protects whole 4 KiB pages, and rounds the end down (_dl_protect_relro, elf/dl-reloc.c).
        start, end = (relro["p_vaddr"], relro["p_vaddr"] + relro["p_memsz"]) if relro else (0, 0)
        # .tbss takes no room in memory; lld fills the last page of RELRO with a section of its own.
        allocated = {
            name: s["sh_addr"]
            for name, s in self.sections.items()
            if s["sh_size"] and s["sh_flags"] & 2 and name not in (".tbss", ".relro_padding")
        }
        flags, flags_1 = (next((v for t, v in tags if t == name), 0) for name in ("DT_FLAGS", "DT_FLAGS_1"))
        return {
            "type": self.type,
            "writable and executable": any(s["p_flags"] & 3 == 3 for s in self.loads),
            "memory beyond the file is executable": any(s["p_memsz"] > s["p_filesz"] for s in self.text),
            "stack": next((s["p_flags"] for s in self.segments if s["p_type"] == "PT_GNU_STACK"), None),
            "relro": {name for name, address in allocated.items() if start <= address < end},
            "bind now": bool(flags & 8 or flags_1 & 1 or any(t == "DT_BIND_NOW" for t, _ in tags)),
            "text relocations": bool(flags & 4 or any(t == "DT_TEXTREL" for t, _ in tags)),
            "features": [p["pr_data"] for p in properties if p["pr_type"] in FEATURES],
        }

    def lacks(self, plain: "Elf") -> list[str]:
        """The protections of the *plain* link that this one lacks or has otherwise; more under RELRO is fine."""
        ours, other = self.guards(), plain.guards()
        missing = set(other.pop("relro")) - set(ours.pop("relro"))  # type: ignore[call-overload]
        return [f"{name}: {ours[name]}, not {other[name]}" for name in other if ours[name] != other[name]] + sorted(
            missing
        )

    def faults(self, page: int = PAGE, exact: bool = True) -> list[str]:
        """The reasons why the text is not exactly whole windows; empty if it is.

        Not *exact*, for gold: data may share the segment, which needs to fill its last window only to a 4 KiB page.
        """
        if len(self.text) != 1:
            return [f"{len(self.text)} executable segments"]
        text = self.text[0]
        step = page if exact else 4096
        end = text["p_vaddr"] + text["p_filesz"]
        wrong = {
            "flags": text["p_flags"] != 5,
            "p_vaddr": text["p_vaddr"] % page,
            "p_offset": text["p_offset"] % page,
            "p_align": text["p_align"] < page,
            "p_filesz": text["p_filesz"] % step if exact else -(-text["p_filesz"] // step) * step % page,
            # An ordinary user may map nothing below vm.mmap_min_addr.
            "address 0": self.type == "ET_EXEC" and self.loads[0]["p_vaddr"] < 64 << 10,
            "p_memsz": text["p_memsz"] != text["p_filesz"],
            "file too short": self.size < text["p_offset"] + text["p_filesz"],
            "foreign segment": any(
                other is not text and other["p_vaddr"] < end and other["p_vaddr"] + other["p_memsz"] > text["p_vaddr"]
                for other in self.loads
            ),
            "foreign section": exact
            and [
                name
                for name, s in self.sections.items()
                if s["sh_flags"] & 6 == 2 and s["sh_size"] and text["p_vaddr"] <= s["sh_addr"] < end
            ],
        }
        return [f"{name}: {value}" for name, value in wrong.items() if value]

    def pad(self) -> bytes:
        """The bytes of hugealign's section, and of the text segment after its last section."""
        text = self.text[0]
        last = text["p_vaddr"] + text["p_filesz"]
        inside = [s for s in self.sections.values() if s["sh_flags"] & 2 and s["sh_addr"] < last]
        end = max(s["sh_offset"] + s["sh_size"] for s in inside)
        data = self.data
        ours = next((s for name, s in self.sections.items() if "hugealign.pad" in name), None)
        if ours is None:  # wild has the pad in .text, at its end
            code = data[text["p_offset"] : text["p_offset"] + text["p_filesz"]]
            return code[len(code.rstrip(code[-1:])) :]
        behind = data[end : text["p_offset"] + text["p_filesz"]]
        return data[ours["sh_offset"] : ours["sh_offset"] + ours["sh_size"]] + behind


def diagnoses(document: Any) -> Iterator[dict[str, Any]]:
    """Yield the diagnoses in a JSON *document* of any command."""
    if isinstance(document, dict):
        if "code" in document and "remedy" in document:
            yield document
        document = list(document.values())
    for part in document if isinstance(document, list) else ():
        yield from diagnoses(part)
