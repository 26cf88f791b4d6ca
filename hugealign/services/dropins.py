"""The files that let a service run from huge text.  Pure: returns texts.

A helper service looks for the files and makes their copies at each start, and the enabled service waits for it.
``ExecStartPre=`` would not do: it runs in the mount namespace of the unit, where the previous copy already covers the
file, so it would never see a new file (exec_child and setup_namespace in src/core of systemd).  The helper has no
namespace of its own, so all processes see the store that it mounts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hugealign.diagnosis.refusal import RefusalError
from hugealign.run.tunable import SETTING, VARIABLE
from hugealign.services.view import Found

#: The first line of each file that we write; we remove only files that begin with it.
MARK = "# Written by `hugealign enable`; `hugealign disable` removes it."
PLACE = "/etc/systemd/system"
_PLAIN = re.compile(r"/[A-Za-z0-9/._+@,=:%$~ -]*")  # no quotes, no backslash, no control characters
_MOST_DIRECTORIES = 8
#: How long the text may take to prepare: seconds for anything, and bytes for each one more, of a slow disk.
_SECONDS, _RATE = 60, 16 << 20


@dataclass(frozen=True, slots=True)
class ServiceSetup:
    """What to write for the service *name*: bind copies over *staged* files, and make *warmed* files huge in place.

    *words* are the options of `hugealign enable` with which the helper looks for them again.  *watched* are paths whose
    change says that copies may be outdated.  *tunable*: the program's loader keeps text huge on request.  *size*: bytes
    of all files.
    """

    name: str
    staged: Sequence[Found]
    warmed: Sequence[str] = ()
    words: Sequence[str] = ()
    watched: Sequence[str] = ()
    tunable: bool = False
    store: str = "/run/hugealign"
    size: int = 0


def paths(name: str) -> tuple[str, ...]:
    """Return the paths of all files for the service *name*: our helpers, and last the drop-ins of the enabled one."""
    units = (helper(name), f"{watcher(name)}.service", f"{watcher(name)}.path")
    return (*(f"{PLACE}/{unit}" for unit in units), f"{PLACE}/{name}.d/hugealign.conf", found_since(name))


def found_since(name: str) -> str:
    """Return the path of the drop-in with what the helper of the service *name* finds at a start, and did not before.

    It does not outlast the system.
    """
    return f"/run/systemd/system/{name}.d/hugealign-found.conf"


def helper(name: str) -> str:
    """Return the name of the service that prepares the text of the service *name*."""
    # With an @, it would be an instance of a template.
    return "hugealign-for-" + name.replace("@", "\\x40")


def watcher(name: str) -> str:
    """Return the name, without a suffix, of the units that drop the copies of the service *name* when files change."""
    return "hugealign-watch-" + name.removesuffix(".service").replace("@", "\\x40")


def texts(setup: ServiceSetup, command: str) -> dict[str, str]:
    """Return the texts of the files, by path; *command* is the path of hugealign.  Raises RefusalError."""
    service, drop, path, drop_in, _ = paths(setup.name)
    for file in (*(part for found in setup.staged for part in (found.source, found.target)), *setup.warmed):
        _checked(file)
    result = {service: _service(setup, command)}
    if setup.watched:
        result |= {drop: _drop(setup, command), path: _path(setup)}
    return result | {drop_in: _drop_in(setup)}


def _service(setup: ServiceSetup, command: str) -> str:
    # Remove the names of the previous copies first: if anything fails after that, no old program starts.
    # The names belong to this service: others keep theirs, and with them the copies that they share with it.
    words = (command, "enable", "--renew", *setup.words, "--", setup.name)
    lines = [
        MARK,
        "[Unit]",
        f"Description=Huge text for {setup.name}",
        f"RequiresMountsFor={' '.join(_quoted(_checked(path)) for path in (setup.store, *_directories(setup)))}",
        # Without a limit: what starts the service again and again has to start this with it.
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=oneshot",
        f"TimeoutStartSec={_SECONDS + setup.size // _RATE}",
        f"ExecStart=-/bin/rm -rf -- {_argument(_links(setup))}",
        f"ExecStart=-{' '.join(map(_word, words))}",
    ]
    return "\n".join([*lines, ""])


def _directories(setup: ServiceSetup) -> list[str]:
    """Return where the first files are: a file system may have to be mounted there before they are looked for."""
    files = [*(found.source for found in setup.staged), *setup.warmed]
    return list(dict.fromkeys(file.rpartition("/")[0] or "/" for file in files))[:_MOST_DIRECTORIES]


def given(helper_text: str) -> list[str]:
    """Return the files that *helper_text*, that of a helper, names: those that the unit does not name itself."""
    line = next((line for line in helper_text.splitlines() if " enable --renew " in line), "")
    words = re.findall(r'"--file=([^"]*)"|--file=(\S+)', line.replace("%%", "%").replace("$$", "$"))
    return [quoted or plain for quoted, plain in words]


def _drop(setup: ServiceSetup, command: str) -> str:
    lines = [
        MARK,
        "[Unit]",
        f"Description=Outdated copies of the files of {setup.name}",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=oneshot",
        f"ExecStart=-{_argument(command)} stage --outdated",
    ]
    return "\n".join([*lines, ""])


def _path(setup: ServiceSetup) -> str:
    # Tools find outdated processes by files that are gone.  A copy stays until it is removed.
    lines = [MARK, "[Unit]", f"Description=Changes of the files of {setup.name}", "", "[Path]"]
    lines += [f"PathChanged={_checked(path).replace('%', '%%')}" for path in setup.watched]
    return "\n".join([*lines, ""])


def _drop_in(setup: ServiceSetup) -> str:
    helping = helper(setup.name)
    wanted = f"{helping} {watcher(setup.name)}.path" if setup.watched else helping
    lines = [MARK, "[Unit]", f"Wants={wanted}", f"After={helping}", "", "[Service]", *binds(setup)]
    if setup.tunable:
        lines.append(f"Environment={VARIABLE}={SETTING}")
    return "\n".join([*lines, ""])


def more(lines: Sequence[str]) -> str:
    """Return the text of a drop-in with *lines* of `binds`."""
    return "\n".join([MARK, "[Service]", *lines, ""])


def binds(setup: ServiceSetup) -> list[str]:
    """Return the line for each file that is staged; one without a copy at a start is left as it is."""
    copies = [(_part(f"-{_links(setup)}{found.source}"), _part(found.target)) for found in setup.staged]
    return [f"BindReadOnlyPaths={copy}:{target}" for copy, target in copies]


def _links(setup: ServiceSetup) -> str:
    """Return the directory of the links to the copies for the enabled service (hugealign/run/store.py)."""
    return f"{setup.store}/for/{owner(setup.name)}"


def owner(name: str) -> str:
    """Return the name of the service *name* in the store: still unique, without characters special to systemd."""
    return name.replace("\\", "=")


def _argument(path: str) -> str:
    """Return *path* as one word of a command (systemd.service(5), COMMAND LINES)."""
    return _quoted(_checked(path).replace("$", "$$"))


def _word(word: str) -> str:
    """Return *word* as one word of a command: a path, an option, also with a path, or the name of a unit."""
    option, equals, path = word.partition("=") if word.startswith("--") else ("", "", word)
    if not path.startswith("/"):
        return word.replace("%", "%%").replace("\\", "\\\\")
    return _quoted(option + equals + _checked(path).replace("$", "$$"))


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
