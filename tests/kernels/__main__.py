"""By hand: ``python -m tests.kernels --kernel 6.1 --fs xfs``; ``--write FILE`` makes the document of the last tests."""

import argparse
import sys
from pathlib import Path

from tests import sections
from tests.kernels import debian, machine, pages64k, processors, results
from tests.kernels.claims import faults


def main() -> int:
    """Return 1 if a claim of hugealign's is wrong, 3 if a kernel cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m tests.kernels", description="hugealign on kernels of Debian's.")
    parser.add_argument("--kernel", choices=results.SERIES, action="append", help="default: all; may be repeated")
    parser.add_argument("--fs", choices=machine.FILE_SYSTEMS, action="append", help="default: all; may be repeated")
    parser.add_argument("--write", metavar="FILE", type=Path, help="boot nothing: make FILE of what the tests measured")
    args = parser.parse_args()
    if args.write:
        return write(args.write)
    try:
        machine.check_tools()
        debian.update()
        system = machine.disks()
        runs = [
            results.measure(name, system, args.fs or machine.FILE_SYSTEMS) for name in args.kernel or results.SERIES
        ]
    except debian.Unavailable as reason:
        print(f"kernels: {reason}", file=sys.stderr)
        return 3
    print(results.document(runs))
    wrong = [f"{run['series']}: {fault}" for run in runs for fault in faults(run["results"])]
    print("\n".join(wrong) or "All claims hold.")
    return 1 if wrong else 0


def write(target: Path) -> int:
    """Make *target* of the results that the tests have kept, if they are of all kernels."""
    runs = results.load()
    if runs is None:
        print(f"kernels: not all kernels were tested; {target} stays as it is", file=sys.stderr)
        return 0
    text = results.document(runs)
    # Their machines are others: where one did not run now, what it measured before stays.
    before = sections.split(target.read_text(encoding="utf-8")) if target.exists() else {}
    measured, others = results.saved(pages64k.SERIES), processors.saved()
    renewed = {
        pages64k.TITLE: pages64k.section(measured) if measured else before.get(pages64k.TITLE),
        processors.TITLE: processors.section(others) if others else before.get(processors.TITLE),
    }
    for title, part in renewed.items():
        text = sections.renewed(text, title, part) if part else text
    new = target.with_name(target.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.replace(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
