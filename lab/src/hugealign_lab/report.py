"""The results of a simulation, for people and as JSON.  Pure: returns text."""

from dataclasses import asdict

from hugealign.diagnosis import documents
from hugealign.io.units import counted, printable
from hugealign_lab.simulate import best
from hugealign_lab.simulation import Simulated


def text(simulated: Simulated, *, curve: bool = False) -> str:
    """Return a table of the best rows, or with *curve* of all rows."""
    done = simulated.done
    groups = done.groups()
    wide = max(6, *(len(printable(layout)) for layout, _ in groups))
    names = max(3, *(len(printable(cpu)) for _, cpu in groups))
    threads = counted(done.threads, "thread")
    lines = [
        f"{printable(simulated.binary)}: {done.events:,} blocks, {done.instructions:,} instructions, {threads}",
        *_part(simulated),
        *simulated.trace.description.remarks(),
        *_outside(simulated),
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


def _part(simulated: Simulated) -> list[str]:
    """Return the lines that say which part counts."""
    words = [
        f"{word} {printable(name)}" for word, name in (("from", simulated.first), ("until", simulated.last)) if name
    ]
    return [f"{' '.join(words)}: {simulated.done.threads} of {len(simulated.trace.streams)} threads"] if words else []


def _outside(simulated: Simulated) -> list[str]:
    share = simulated.done.uncovered * 1000 // max(1, simulated.done.events)
    if not share:
        return []
    return [f"{share / 10} % of the blocks lie outside of files (a JIT?): on 4 KiB pages in every layout"]


def to_json(simulated: Simulated) -> str:
    """Return the JSON document ``hugealign.simulate/1``, which simulate-1.schema.json describes."""
    description, done = simulated.trace.description, simulated.done
    body = {
        "binary": simulated.binary,
        "command": list(description.command),
        "machine": description.machine,
        "blocks": done.events,
        "instructions": done.instructions,
        "threads": done.threads,
        "from": simulated.first,
        "until": simulated.last,
        "cut": description.cut,
        "execs": description.execs,
        "lost_threads": description.lost,
        "outside_of_files": done.uncovered,
        "rows": [asdict(row) | {"mpki": round(done.mpki(row), 6)} for row in done.rows],
    }
    return documents.to_json("hugealign.simulate/1", body)
