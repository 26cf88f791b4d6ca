"""The command that starts a process again so that its text is huge."""

import os
import shlex
from dataclasses import dataclass

from hugealign.io.execution import which
from hugealign.io.units import printable

#: Nobody starts these through hugealign.
MANAGERS = ("systemd", "init")


@dataclass(frozen=True, slots=True)
class Start:
    """A restart from huge text: of the *service* if there is one, else of the *program*, in its container if *inside*.

    *fix*: from files with edited headers; *files*: with these libraries.
    """

    program: str
    service: str
    inside: bool
    fix: bool
    files: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """The service, if it can be enabled from here."""
        return "" if self.inside else self.service

    @property
    def whose(self) -> tuple[str, bool]:
        """The service or program to start, and whether it is in a container."""
        return self.unit or self.program, self.inside

    @property
    def command(self) -> str:
        """The command that makes the text huge; for a service, now and after each upgrade."""
        fix = "--fix " * self.fix
        if self.unit:
            unit = shlex.quote(self.unit)  # systemd writes some characters as \xNN
            return f"hugealign enable {fix}{'--libs ' * bool(self.files)}{unit} && systemctl restart {unit}"
        name = os.path.basename(self.program)
        if not self.inside and which(name) != self.program:
            name = self.program
        # A library is named by its file: the program may be linked with it, or open it later.
        files = "".join(f"--file {printable(shlex.quote(path))} " for path in self.files)
        start = f"hugealign run {fix}{files}-- {printable(shlex.quote(name))}"
        return f"{'in its container, ' * self.inside}start it with: {start}"
