"""The files of containers by their paths on the machine: in the layers of images, which containers share.

Names and files of a container are its own.  So only a file that runs in it is looked for, without following a link, in
the layers of its image, which the container cannot change.
"""

import os
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from hugealign.io import places
from hugealign.io.descriptors import using
from hugealign.process.command_samples import Page
from hugealign.process.machine_samples import CONTAINER, MachineSamples, Use


def on_machine(samples: MachineSamples, covered: Collection[str]) -> MachineSamples:
    """Return *samples* with the files of containers by their paths on the machine; others are not *files* of a use.

    *covered* are paths that the hook covers: what runs there are copies.
    """
    known: dict[tuple[str, ...], dict[tuple[str, int], str]] = {}
    uses = []
    for use in samples.uses:
        if use.owner.startswith(CONTAINER):
            origin = samples.origins.get(use.owner)
            layers = origin.layers if origin else ()
            uses.append(_moved(use, layers, known.setdefault(layers, {}), covered))
        else:
            uses.append(use)
    return replace(samples, uses=tuple(uses))


def is_closed(layers: Sequence[str], file: str) -> bool:
    """Return whether only root may replace the *file* in one of *layers*, by the topmost that has its directory."""
    own = next((layer for layer in layers if file.startswith(f"{layer}/")), None)
    if own is None:
        return False
    directory = os.path.dirname(file.removeprefix(f"{own}/")) or "."
    for layer in layers:
        with (
            suppress(OSError, ValueError),
            using(os.open(layer, os.O_PATH | os.O_DIRECTORY)) as top,
            using(places.beneath(top, directory, os.O_PATH)) as place,
        ):
            info = os.fstat(place)
            return info.st_uid == os.fstat(top).st_uid and not info.st_mode & 0o022
    return False


def _moved(use: Use, layers: Sequence[str], known: dict[tuple[str, int], str], covered: Collection[str]) -> Use:
    """Return *use* with the files that it was seen to run from; *known* are those that were found."""
    paths: dict[str, str] = {}
    ran = {path for path, _ in (*use.pages, *use.faults)}
    for path, inode in use.files.items():
        copied = next((name for layer in layers if (name := layer + path) in covered), "") if covered else ""
        if copied:
            paths[path] = copied
        elif path in ran:
            if (path, inode) not in known:
                known[path, inode] = _in_layer(layers, path, inode)
            if known[path, inode]:
                paths[path] = known[path, inode]

    def moved(counts: "Counter[Page]") -> "Counter[Page]":
        return Counter({(paths.get(path, path), page): count for (path, page), count in counts.items()})

    return replace(
        use,
        program=paths.get(use.program, use.program),
        pages=moved(use.pages),
        faults=moved(use.faults),
        files={paths[path]: use.files[path] for path in paths},
    )


def _in_layer(layers: Sequence[str], path: str, inode: int) -> str:
    """Return the file with the *inode* that the topmost of *layers* with that *path* has, empty if it has another."""
    for layer in layers:
        with (
            suppress(OSError, ValueError),
            using(os.open(layer, os.O_PATH | os.O_DIRECTORY)) as top,
            using(places.beneath(top, path.lstrip("/"), os.O_PATH)) as file,
        ):
            return f"{layer}{path}" if os.fstat(file).st_ino == inode else ""
    return ""
