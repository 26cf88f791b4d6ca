"""The programs that a profile names itself: perf.data and callgrind know the files that ran."""

import os
from collections.abc import Iterable

from hugealign.profile.formats import FORMATS, detect
from hugealign.profile.model import ProfileError
from hugealign.profile.read import HEAD, recorded

_MOST = 1000  # files to look for, of a profile


def programs(profiles: Iterable[str]) -> list[str]:
    """Return the paths of the programs named in *profiles* that exist here, without libraries and perf itself.

    A profile that cannot be read, or that names no files, adds none: its reader reports what is wrong with it.
    """
    paths: dict[str, None] = {}
    for profile in profiles:
        for name in _named(profile)[:_MOST]:
            base = os.path.basename(name)
            if os.path.isabs(name) and ".so" not in base and base != "perf" and os.path.isfile(name):
                paths[name] = None
    return list(paths)


def _named(profile: str) -> list[str]:
    try:
        data = recorded(profile)
        if not os.path.isfile(data):  # a pipe can be read only once
            return []
        with open(data, "rb") as file:
            head = file.read(HEAD)
        form = FORMATS.get(detect(head) or "")
        if form and form.builds:
            return [*form.builds(profile)]
        return form.programs(head) if form and form.programs else []
    except (OSError, ProfileError):
        return []
