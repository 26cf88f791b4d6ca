"""The files that `warm` and `stage` work on: FILEs, those below directories, and the libraries that they need."""

import argparse
import os
from contextlib import suppress

from hugealign.errors import HugealignError
from hugealign.io.progress import Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hugealign.io.places import Place


def path(file: "str | Place") -> str:
    """Return the path of *file*, one of `chosen`."""
    return file if isinstance(file, str) else file.path


def chosen(
    args: argparse.Namespace, command: str, *, large: bool = False
) -> tuple[dict["str | Place", bool], list[tuple[str, str]]]:
    """Return the files, in order, each with whether -r or --libs found it; and the missing libraries.

    A missing library is its name and the file that needs it.  *large*: leave out libraries that are not worth a copy.
    """
    found: dict[str | Place, bool] = dict.fromkeys(args.files, False)
    if args.recursive:
        from hugealign.verification import inputs

        with Progress(f"hugealign: {command}") as progress:
            found = dict.fromkeys(inputs.programs(args.files, progress.say), True)
    missing: dict[tuple[str, str], None] = {}
    if args.libs:
        from hugealign.system import libraries

        known = {os.path.realpath(path(file)) for file in found}
        for file in tuple(found):
            with suppress(HugealignError):  # reported for the file itself
                resolved = libraries.resolve(path(file))
                new = [library for library in resolved.paths if library not in known]
                if large:
                    from hugealign.run import copies

                    new = [library for library in new if not copies.is_small_library(library)]
                found |= dict.fromkeys(new, True)
                known.update(resolved.paths)
                missing |= dict.fromkeys(resolved.missing)
    return found, list(missing)
