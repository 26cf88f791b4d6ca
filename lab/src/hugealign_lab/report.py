"""The results of a simulation, for people and as JSON.  Pure: returns text."""

import json
from dataclasses import asdict

from hugealign.io.units import counted, printable
from hugealign_lab.simulate import best
from hugealign_lab.simulation import Simulated


def text(found: Simulated, *, curve: bool = False) -> str:
    """Return a table of the best rows, or with *curve* of all rows."""
    done = found.done
    groups = done.groups()
    wide = max(6, *(len(printable(layout)) for layout, _ in groups))
    names = max(3, *(len(printable(cpu)) for _, cpu in groups))
    threads = counted(done.threads, "thread")
    lines = [
        f"{printable(found.binary)}: {done.events:,} blocks, {done.instructions:,} instructions, {threads}",
        *_part(found),
        *found.trace.description.remarks(),
        *_outside(found),
        "",
        f"{'layout':{wide}}  {'CPU':{names}}  windows          misses           walks      MPKI",
    ]
    for (layout, cpu), rows in groups.items():
        lines += [
            f"{printable(layout):{wide}}  {printable(cpu):{names}}  {row.windows:7}  {row.misses:14,}  "
            f"{'--' if row.walks is None else format(row.walks, ','):>14}  {done.mpki(row):8.3f}"
            for row in (rows if curve else [best(rows)])
        ]
    return "\n".join(lines) + "\n"


def _part(found: Simulated) -> list[str]:
    """Return the lines that say which part counts."""
    words = [f"{word} {printable(name)}" for word, name in (("from", found.first), ("until", found.last)) if name]
    return [f"{' '.join(words)}: {found.done.threads} of {len(found.trace.streams)} threads"] if words else []


def _outside(found: Simulated) -> list[str]:
    share = found.done.uncovered * 1000 // max(1, found.done.events)
    if not share:
        return []
    return [f"{share / 10} % of the blocks lie outside of files (a JIT?): on 4 KiB pages in every layout"]


def to_json(found: Simulated) -> str:
    """Return the JSON document ``hugealign.simulate/1``, which simulate-1.schema.json describes."""
    said, done = found.trace.description, found.done
    document = {
        "schema": "hugealign.simulate/1",
        "binary": found.binary,
        "command": list(said.command),
        "machine": said.machine,
        "blocks": done.events,
        "instructions": done.instructions,
        "threads": done.threads,
        "from": found.first,
        "until": found.last,
        "cut": said.cut,
        "execs": said.execs,
        "lost_threads": said.lost,
        "outside_of_files": done.uncovered,
        "rows": [asdict(row) | {"mpki": round(done.mpki(row), 6)} for row in done.rows],
    }
    return json.dumps(document, indent=2) + "\n"
