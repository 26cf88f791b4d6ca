"""Whether a security module chooses what a program may do by its file, which a copy without a path does not have."""

_LABEL = "/proc/self/attr/current"
#: How AppArmor ends the name of a profile that it applies, and in a container to all that is executed there.
_MODES = ("(enforce)", "(complain)", "(kill)")


def by_file(path: str = _LABEL) -> bool:
    """Return whether one may, by what *path* says of this process: SELinux by a label, AppArmor for the unconfined."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return not file.read().rstrip("\0\n").endswith(_MODES)
    except OSError:  # no module labels processes
        return False
