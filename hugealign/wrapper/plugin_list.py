"""The list of the clang and lld binaries that the built pass plugins are for, each with its state at that time.

A plugin crashes a compiler or linker of another version, so exactness comes first: sizes and times of the tool and of
LLVM's libraries must be the same as when the plugin was built for it.  ccache identifies a compiler the same way (its
manual, ``compiler_check``).  sh/launch.sh reads the list too, with no process but stat(1).

One line per tool, fields separated by tabs: the plugin, the tool, ``size:seconds`` of the tool and of each library,
the libraries.
"""

import os

from hugealign.errors import HugealignError
from hugealign.io import resources
from hugealign.io.descriptors import using
from hugealign.io.resources import check, check_directory
from hugealign.records import Record

_LIMIT = 1 << 20  # bytes of the list that are read
NAME = "tools"


class ListedPlugin(Record):
    """The plugin at *plugin* is for *tool*, which loads *libraries*; *identity* is what `identity` gave for them."""

    plugin: str
    tool: str
    identity: str
    libraries: list[str]

    def current(self) -> bool:
        """Return whether the tool is the one that the plugin was built for, and the plugin is our own."""
        try:
            return self._is_safe() and identity([self.tool, *self.libraries]) == self.identity
        except (OSError, ValueError, HugealignError):
            return False

    def _is_safe(self) -> bool:
        """Return whether no other user can put another file under the plugin's path, by its name or by a link in it."""
        if os.path.realpath(self.plugin) != self.plugin:
            return False
        with using(os.open(os.path.dirname(self.plugin), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
            check_directory(directory, self.plugin)
        check(os.stat(self.plugin), self.plugin)
        return True

    def line(self) -> str:
        """Return the line of the list."""
        return "\t".join((self.plugin, self.tool, self.identity, *self.libraries)) + "\n"

    def can_be_listed(self) -> bool:
        """Return whether no path has a character that would end the line or a field."""
        return not any(set("\t\n") & set(path) for path in (self.plugin, self.tool, *self.libraries))


def cache() -> str:
    """Return the user's directory of built plugins."""
    return os.path.join(resources.cache(), "lld-plugin")


def identity(paths: list[str]) -> str:
    """Return the sizes and times of the files at *paths*.  Raises OSError, ValueError."""
    infos = [os.stat(path) for path in paths]
    return " ".join(f"{each.st_size}:{each.st_mtime_ns // 10**9}" for each in infos)


def read() -> list[ListedPlugin]:
    """Return the entries of the list; none if there is no list, or if others could have written it."""
    place = cache()
    try:
        with using(os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
            check_directory(directory, place)
            fd = os.open(NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        with open(fd, "rb") as file:
            check(os.fstat(fd), place)
            text = os.fsdecode(file.read(_LIMIT))
    except (OSError, HugealignError):
        return []
    rows = [line.split("\t") for line in text.split("\n")]
    return [ListedPlugin(row[0], row[1], row[2], row[3:]) for row in rows if len(row) >= 3]


def find(tool: str) -> str | None:
    """Return the plugin built for exactly the *tool* at that path, None if there is none or the user wants none."""
    if os.environ.get("HUGEALIGN_PLUGIN") == "0":
        return None
    for entry in read():
        try:
            same = os.path.samefile(tool, entry.tool)
        except (OSError, ValueError):
            continue
        if same:
            return entry.plugin if entry.current() else None
    return None
