"""The files that let a service run from huge text.  Pure: returns texts.

A helper service makes the copy, and the enabled service waits for it.  ``ExecStartPre=`` would not do: it runs in the
mount namespace of the unit, where the previous copy already covers the file, so it would never see a new file
(exec_child and setup_namespace in src/core of systemd).  The helper has no namespace of its own, so all processes see
the store that it mounts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hugealign.diagnosis.refusal import RefusalError
from hugealign.run.launch import SETTING, VARIABLE

#: The first line of each file that we write; we remove only files that begin with it.
MARK = "# Written by `hugealign enable`; `hugealign disable` removes it."
PLACE = "/etc/systemd/system"
_PLAIN = re.compile(r"/[A-Za-z0-9/._+@,=:%$~ -]*")  # no quotes, no backslash, no control characters
#: How long the text may take to prepare: seconds for anything, and bytes for each one more, of a slow disk.
_SECONDS, _RATE = 60, 16 << 20


@dataclass(frozen=True, slots=True)
class ServiceSetup:
    """What to write for the service *name*: bind copies over *staged* files, and make *warmed* files huge in place.

    *fix*: fixed copies where a file has no window.  *tunable*: the program's loader keeps text huge if asked.
    *size*: bytes of all files.
    """

    name: str
    staged: Sequence[str]
    warmed: Sequence[str] = ()
    fix: bool = False
    tunable: bool = False
    store: str = "/run/hugealign"
    size: int = 0


def paths(name: str) -> tuple[str, str]:
    """Return the paths of both files for the service *name*: our helper service, and the drop-in of the enabled one."""
    return f"{PLACE}/{helper(name)}", f"{PLACE}/{name}.d/hugealign.conf"


def helper(name: str) -> str:
    """Return the name of the service that prepares the text of the service *name*."""
    # With an @, it would be an instance of a template.
    return "hugealign-for-" + name.replace("@", "\\x40")


def texts(setup: ServiceSetup, command: str) -> dict[str, str]:
    """Return the texts of the files, by path; *command* is the path of hugealign.  Raises RefusalError."""
    service, drop_in = paths(setup.name)
    for path in (*setup.staged, *setup.warmed):
        _checked(path)
    return {service: _service(setup, command), drop_in: _drop_in(setup)}


def _service(setup: ServiceSetup, command: str) -> str:
    run = _argument(command)
    lines = [
        MARK,
        "[Unit]",
        f"Description=Huge text for {setup.name}",
        f"RequiresMountsFor={_argument(setup.store)}",
        "",
        "[Service]",
        "Type=oneshot",
        f"TimeoutStartSec={_SECONDS + setup.size // _RATE}",
    ]
    # Remove the names of the previous copies first: if anything fails after that, no old program starts.
    # The names belong to this service: others keep theirs, and with them the copies that they share with it.
    lines += [f"ExecStart=-/bin/rm -f -- {_argument(_link(setup, path))}" for path in setup.staged]
    staging = f"stage{' --fix' if setup.fix else ''} --owner {owner(setup.name)}"
    for words, files in ((staging, setup.staged), ("warm", setup.warmed)):
        if files:
            lines.append(f"ExecStart=-{run} {words} -- {' '.join(map(_argument, files))}")
    return "\n".join([*lines, ""])


def _drop_in(setup: ServiceSetup) -> str:
    helping = helper(setup.name)
    lines = [MARK, "[Unit]", f"Wants={helping}", f"After={helping}", "", "[Service]"]
    for path in setup.staged:
        copy = _part(f"-{_link(setup, path)}")
        lines.append(f"BindReadOnlyPaths={copy}:{_part(path)}")
    if setup.tunable:
        lines.append(f"Environment={VARIABLE}={SETTING}")
    return "\n".join([*lines, ""])


def _link(setup: ServiceSetup, path: str) -> str:
    """Return the path of the link to the copy of the file *path* for the enabled service (hugealign/run/store.py)."""
    return f"{setup.store}/for/{owner(setup.name)}{path}"


def owner(name: str) -> str:
    """Return the name of the service *name* in the store: still unique, without characters special to systemd."""
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


def is_plain(path: str) -> bool:
    """Return whether a unit can contain the name *path*."""
    return bool(_PLAIN.fullmatch(path.removeprefix("-")))


def _checked(path: str) -> str:
    if not is_plain(path):
        raise RefusalError("service.odd-name", file=path)
    return path
