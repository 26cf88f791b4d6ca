"""What `ps` says of programs that unpack their own code, and whether the command that it names helps.

Run by ``python -m lab.bench.unpacking --write docs/measured/unpacking.md ROW...``.  A row is ``NAME=FILE=COMMAND``: a
command that works for some ten seconds, and a pattern of the base name of the file that it unpacks.  Rows of the page
that are not measured again stay.
"""

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hugealign.io import replacing

_HUGEALIGN = str(Path(__file__).parents[2] / "bin" / "hugealign")
_SECONDS = 5  # until a program has unpacked its code and runs it
_PAGE = """\
# Programs that unpack their own code

Of {all} programs that unpack what they execute, `ps` names a command for {named}. In {helped} of these the command
makes huge what the program touches of the unpacked file. For the others `ps` says why none would help.

| program | unpacks | `ps` | windows huge | after the command |
|---|---|---|--:|--:|
{rows}

*unpacks*: with *again*, the second start executes another file than the first. *windows huge* counts those of the
unpacked file at the second start, and then after the command that `ps` names, `hugealign run`, for it.

## How it was made

`python -m lab.bench.unpacking --write docs/measured/unpacking.md ROW...` wrote this, {day}, on Linux {release}. Before
each look the file, if it is there, is on small pages. `deno compile` needs a download that was not available.
"""
Part = tuple[str, int, int, int]


def looked(words: list[str], pattern: str) -> tuple[str, Part | None, dict[str, Any] | None]:
    """Start *words*; return the file like *pattern* that a process executes, its windows, and its diagnosis."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as child:
        try:
            time.sleep(_SECONDS)
            for pid in _session(child.pid):
                done = subprocess.run([_HUGEALIGN, "ps", "--all", "--json", pid], stdout=subprocess.PIPE, check=False)
                for process in json.loads(done.stdout)["processes"]:
                    parts = [m for m in process["mappings"] if re.search(pattern, os.path.basename(m["path"]))]
                    if parts:
                        path = parts[0]["path"]
                        huge, possible = (sum(m[key] for m in parts) for key in ("windows_huge", "windows_possible"))
                        about = [item for item in process["diagnoses"] if item["subject"] == path]
                        return path, (path, process["pid"], huge, possible), about[0] if about else None
        finally:
            os.killpg(child.pid, signal.SIGTERM)
    return "", None, None


def _session(leader: int) -> list[str]:
    """Return the PIDs of a session, the youngest first."""
    done = subprocess.run(["ps", "-o", "pid=", "-s", str(leader)], capture_output=True, text=True, check=False)
    return sorted(done.stdout.split(), key=int, reverse=True)


def measured(row: str) -> list[str]:
    """Return the cells of a *row*."""
    name, pattern, command = row.split("=", 2)
    words = shlex.split(command)
    first, *_ = looked(words, pattern)
    subprocess.run([_HUGEALIGN, "warm", "--undo", first], capture_output=True, check=False)
    second, part, diagnosis = looked(words, pattern)
    if part is None:
        raise SystemExit(f"{name}: no process executes {pattern}")
    file = re.sub("(?<![a-z])[0-9a-f]{12,}|[0-9]{6,}", "…", os.path.basename(second)) + (
        "" if first == second else " (again)"
    )
    cells = [name, file, f"`{diagnosis['code']}`" if diagnosis else "", f"{part[2]} of {part[3]}", ""]
    remedy = diagnosis and diagnosis["remedy"]
    if remedy and remedy["argv"]:
        subprocess.run([_HUGEALIGN, "warm", "--undo", second], capture_output=True, check=False)
        _, after, left = looked([_HUGEALIGN, *remedy["argv"][1:], *words[1:]], pattern)
        untouched = not left or left["code"] == "process.not-touched"
        cells[-1] = f"{after[2]} of {after[3]}" if after and untouched else "no"
    return cells


def page(rows: list[list[str]], before: str) -> str:
    """Return the page with *rows*, and those of the page *before* that are not among them."""
    known = {line.split(" | ")[0][2:]: line for line in before.splitlines() if re.match(r"\| .* of \d", line)}
    known |= {row[0]: f"| {' | '.join(row)} |" for row in rows}
    last = [line.rstrip(" |").rpartition(" | ")[2] for line in known.values() if not line.endswith("|  |")]
    return _PAGE.format(
        all=len(known),
        named=len(last),
        helped=sum(cell != "no" for cell in last),
        rows="\n".join(known.values()),
        day=datetime.now(UTC).date(),
        release=os.uname().release.partition("-")[0],
    )


def main() -> int:
    """Measure the rows, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", metavar="FILE", required=True)
    parser.add_argument("rows", metavar="NAME=FILE=COMMAND", nargs="+")
    args = parser.parse_args()
    rows = []
    for row in args.rows:
        rows.append(measured(row))
        print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    before = Path(args.write).read_text(encoding="utf-8") if os.path.exists(args.write) else ""
    replacing.write(args.write, page(rows, before).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
