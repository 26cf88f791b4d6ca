"""The names of compilation units in debug information, by the source file that symbols are listed under.

In the symbol table, local functions of one name differ by their file (STT_FILE), which has no directories.  A compiler
tells them apart by the unit's name in DWARF (DW_AT_name of DW_TAG_compile_unit; DWARF 5, section 3.1.1): clang by the
name it was given, ``src/a.c``, rustc by ``src/lib.rs/@/name.hash-cgu.07``, whose last part is the file.
"""

import importlib
import os
import site
import sys
from types import ModuleType
from typing import Any

from hugealign.errors import HugealignError, cause
from hugealign.io.units import printable

#: The debug sections that hold units and their names.  The rest, most of it, is not read.
_SECTIONS = ("info", "abbrev", "str", "line_str", "str_offsets", "addr", "rnglists")
_MOST = 1 << 28  # bytes of those sections: they are read into memory
_MOST_UNITS = 1 << 18


def read_units(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the names of the units of the file at *path*, by their last parts; without parts that several units share.

    A file without debug information has none.  Raises HugealignError, which names the file, if the information cannot
    be read, or if pyelftools, which reads it, is not installed.
    """
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as stream:
            return _units(_elftools(), stream)
    except (HugealignError, OSError) as error:
        raise HugealignError(f"{printable(os.fspath(path))}: {cause(error)}") from None


def _elftools() -> ModuleType:
    """Return pyelftools' reader, for which this Python, started without site-packages, has to look."""
    name = "elftools.elf.elffile"
    try:
        return importlib.import_module(name)
    except ImportError:
        site.main()
    try:
        return importlib.import_module(name)
    except ImportError:
        # The interpreter by its path, since `pip` on PATH can be another's.
        ways = f"{printable(sys.executable)} -m pip install pyelftools, or Debian: apt install python3-pyelftools"
        raise HugealignError(f"its debug information needs pyelftools, which is not installed ({ways})") from None


def _units(elftools: Any, stream: Any) -> dict[str, str]:
    wanted = {f".debug_{name}" for name in _SECTIONS}

    class Units(elftools.ELFFile):  # type: ignore[misc]
        """The file without the sections that say nothing about units."""

        def get_section_by_name(self, name: str) -> Any:
            if name.startswith((".debug_", ".eh_frame")) and name not in wanted:
                return None
            return super().get_section_by_name(name)

    units: dict[str, set[tuple[str, str]]] = {}
    try:
        file = Units(stream)
        if not file.get_section_by_name(".debug_info"):
            return {}
        _check(sum(section.data_size for section in file.iter_sections() if section.name in wanted), _MOST, "bytes")
        for number, unit in enumerate(file.get_dwarf_info(relocate_dwarf_sections=False).iter_CUs()):
            _check(number, _MOST_UNITS, "compilation units")
            top = unit.get_top_DIE()
            name, directory = (_text(top, key) for key in ("DW_AT_name", "DW_AT_comp_dir"))
            if top.tag == "DW_TAG_compile_unit" and name:
                units.setdefault(name.rpartition("/")[2], set()).add((name, directory))
    except HugealignError:
        raise
    except Exception:  # noqa: BLE001 - of a damaged file the library raises anything, from AssertionError to zlib.error
        raise HugealignError("its debug information cannot be read") from None
    # A unit whose functions others have inlined occurs several times (link-time optimisation).
    return {file: next(iter(names))[0] for file, names in units.items() if len(names) == 1}


def _check(count: int, most: int, what: str) -> None:
    if count > most:
        raise HugealignError(f"its debug information has more than {most:,} {what}, which are not read")


def _text(entry: Any, key: str) -> str:
    attribute = entry.attributes.get(key)
    value = attribute.value if attribute else b""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else ""
