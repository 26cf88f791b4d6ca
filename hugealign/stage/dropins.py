"""The files that let a service run from huge text.  Pure: returns texts.

A service of ours makes the copy, and the adopted one waits for it.  It is not done in ``ExecStartPre=``: what starts
there is in the mount namespace of the unit already, where the copy of last time lies over the file, so a new file would
never be seen (exec_child and setup_namespace in src/core of systemd).  And it has no namespace of its own, so the
store that it mounts is there for all.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hugealign.errors import HugealignError
from hugealign.stage.tunable import SETTING, VARIABLE
from hugealign.units import printable

#: The first line of each file that we write, and the only ones that we remove.
MARK = "# Written by `hugealign adopt`; `hugealign adopt --undo` removes it."
PLACE = "/etc/systemd/system"
_PLAIN = re.compile(r"/[A-Za-z0-9/._+@,=:%$~ -]*")  # no quotes, no backslash, no control characters


@dataclass(frozen=True, slots=True)
class Adoption:
    """What to write for the service *name*: *staged* are files to bind copies over, *warmed* those made huge in place.

    *fix*: fixed copies where a file has no window.  *tunable*: the loader of the program keeps text huge if asked.
    *rodata*: what is only readable, too.
    """

    name: str
    staged: Sequence[str]
    warmed: Sequence[str] = ()
    fix: bool = False
    tunable: bool = False
    store: str = "/run/hugealign"
    rodata: bool = False


def paths(name: str) -> tuple[str, str]:
    """Return the paths of the two files for the service *name*: our service, and the drop-in of the adopted one."""
    return f"{PLACE}/{helper(name)}", f"{PLACE}/{name}.d/hugealign.conf"


def helper(name: str) -> str:
    """Return the name of the service that prepares the text of the service *name*."""
    # With an @ it would be an instance of a template.
    return "hugealign-for-" + name.replace("@", "\\x40")


def texts(adoption: Adoption, command: str) -> dict[str, str]:
    """Return the texts of the files by path; *command* is the path of hugealign.  Raises HugealignError."""
    service, drop_in = paths(adoption.name)
    return {service: _service(adoption, command), drop_in: _drop_in(adoption)}


def _service(adoption: Adoption, command: str) -> str:
    run = _argument(command)
    lines = [
        MARK,
        "[Unit]",
        f"Description=Huge text for {adoption.name}",
        f"RequiresMountsFor={_argument(adoption.store)}",
        "",
        "[Service]",
        "Type=oneshot",
        "TimeoutStartSec=60",
    ]
    # First the names of the last copies go: whatever fails then, no old program is started.
    # Names of its own: other services keep theirs, and with them the copies that they share with it.
    lines += [f"ExecStart=-/bin/rm -f -- {_argument(_link(adoption, path))}" for path in adoption.staged]
    rodata = " --rodata" if adoption.rodata else ""
    staging = f"stage{' --fix' if adoption.fix else ''}{rodata} --owner {_owner(adoption.name)}"
    for words, files in ((staging, adoption.staged), (f"warm{rodata}", adoption.warmed)):
        if files:
            lines.append(f"ExecStart=-{run} {words} -- {' '.join(map(_argument, files))}")
    return "\n".join([*lines, ""])


def _drop_in(adoption: Adoption) -> str:
    helping = helper(adoption.name)
    lines = [MARK, "[Unit]", f"Wants={helping}", f"After={helping}", "", "[Service]"]
    for path in adoption.staged:
        copy = _part(f"-{_link(adoption, path)}")
        lines.append(f"BindReadOnlyPaths={copy}:{_part(path)}")
    if adoption.tunable:
        lines.append(f"Environment={VARIABLE}={SETTING}")
    return "\n".join([*lines, ""])


def _link(adoption: Adoption, path: str) -> str:
    """Return where the copy of the file *path* is for the adopted service (hugealign/stage/store.py)."""
    return f"{adoption.store}/for/{_owner(adoption.name)}{path}"


def _owner(name: str) -> str:
    """Return the name of the service without what means something to systemd; no other service has it."""
    return name.replace("\\", "=")


def _argument(path: str) -> str:
    """Return *path* as one word of a command (systemd.service(5), COMMAND LINES)."""
    return _quoted(_checked(path).replace("$", "$$"))


def _part(path: str) -> str:
    """Return *path* as a part of a pair with a colon (systemd.exec(5), BindPaths=)."""
    return _quoted(_checked(path).replace(":", "\\:"))


def _quoted(text: str) -> str:
    text = text.replace("%", "%%")  # systemd.unit(5), SPECIFIERS
    return f'"{text}"' if " " in text else text


def _checked(path: str) -> str:
    if not _PLAIN.fullmatch(path.removeprefix("-")):
        raise HugealignError(f"{printable(path)}: such a name cannot be written into a unit")
    return path
