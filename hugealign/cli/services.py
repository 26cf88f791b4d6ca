"""What `enable` and `disable` share: work on each UNIT, and its result as text or JSON."""

import argparse

from hugealign.cli import messages
from hugealign.errors import HugealignError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hugealign.diagnosis.values import Remedy


def restart(name: str, undo: "Remedy") -> None:
    """Restart the service *name*, or say how to *undo* what was done to it.  Raises HugealignError."""
    from hugealign.diagnosis.refusal import DiagnosedError
    from hugealign.services import programs

    try:
        programs.restart(name)
    except DiagnosedError as error:
        error.diagnosis = error.diagnosis.changed(remedy=undo)
        raise


def each(args: argparse.Namespace, work: "Callable[[str], tuple[list[str], list[str]]]") -> int:
    """Do the *work* for each unit, which returns paths and lines; print the result, and return the exit status."""
    done: dict[str, list[str]] = {}
    errors: list[tuple[str, HugealignError]] = []
    for unit in args.units:
        try:
            done[unit], lines = work(unit)
        except HugealignError as error:
            errors.append((unit, error))
            if not args.json:
                messages.failed(unit, error)
            continue
        if not args.json:
            print(*lines, sep="\n")
    if args.json:
        from hugealign.diagnosis import documents
        from hugealign.services.enable import Changed, Report

        changed = [Changed(unit, files) for unit, files in done.items()]
        print(documents.text(Report(changed, documents.failed(errors))), end="")
    return max((error.exit_status for _, error in errors), default=0)
