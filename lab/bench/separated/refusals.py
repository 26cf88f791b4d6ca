"""``python -m lab.bench.separated.refusals OLD NEW FILE...``: what two versions of `fix` refuse to separate, and why.

OLD and NEW are programs, such as bin/hugealign of two checkouts.  Nothing is written but a table.
"""

import json
import subprocess
import sys
from collections import Counter

_SEPARATED = "separated"


def outcome(program: str, path: str) -> str:
    """Return why *program* does not separate the file at *path*: a code, or that it does."""
    words = (program, "fix", "--level=separate", "--dry-run", "--json", path)
    done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=600)
    document = json.loads(done.stdout)
    if document["errors"]:
        (error,) = document["errors"]
        return str(error["diagnosis"]["code"])
    (file,) = document["files"]
    return _SEPARATED if file["action"] == "fix" else str(file["action"])


def main() -> int:
    """Run from the command line."""
    old, new, *paths = sys.argv[1:]
    before, after = ({path: outcome(program, path) for path in paths} for program in (old, new))
    changed = Counter((before[path], after[path]) for path in paths)
    sys.stdout.write("| before | after | files |\n|---|---|--:|\n")
    for (was, now), count in sorted(changed.items()):
        sys.stdout.write(f"| {was} | {now} | {count} |\n")
    for path in paths:
        if before[path] != after[path]:
            sys.stdout.write(f"{path}: {before[path]} -> {after[path]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
