"""The options that the installed linkers say they have: read from their ``--help``, as data for tests."""

import re
import subprocess
from dataclasses import dataclass
from functools import cache

#: Where GNU ld's own options end, in the words of its help, and those of other targets begin.
_OTHER_TARGETS = re.compile(r"(?ms)^(elf32_x86_64|elf_i386|elf_iamcu|i386pep?|aarch64\w*): *$.*?(?=^\w|\Z)")


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its *name* without dashes, and what follows it in the help, such as ``=<value>`` or ``FILE``."""

    name: str
    argument: str

    @property
    def keyword(self) -> str:
        """The keyword if this is one of ``-z``, else nothing."""
        return self.argument if self.name == "z" else ""


@cache
def options(linker: str) -> tuple[Option, ...]:
    """Return the options that *linker* names in its help."""
    done = subprocess.run((linker, "--help"), capture_output=True, text=True, check=True)
    result = {}
    for line in _OTHER_TARGETS.sub("", done.stdout).expandtabs().splitlines():
        entry = re.match(r" {2,4}(-.*)", line)
        if not entry:
            continue
        spec = re.split(r"\s{2,}", entry[1])[0]
        for part in re.split(r",\s+(?=-)", spec):
            if keyword := re.match(r"-z ([a-z0-9_-]+(?:=\S+)?)", part):
                result["z", keyword[1]] = Option("z", keyword[1])
            elif not part.startswith("-z ") and (option := re.match(r"--?([^\s=\[<,]+)\s*(.*)", part)):
                result[option[1], option[2]] = Option(option[1], option[2])
    return tuple(result.values())
