"""The cost of tracing, and the speed of simulating a trace.  Run by ``make bench``, or alone."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

from hugealign.system.processors import find
from hugealign_lab.geometry import geometry
from hugealign_lab.placement import original
from hugealign_lab.simulate import simulate
from hugealign_lab.tracefile import Trace, open_trace
from lab.bench.timing import Table
from tests.support import HUGEALIGN

#: Interpreting Python, compiling it, sorting and hashing: wide code, few loops.
_SCRIPT = "import ast, json; [json.loads(json.dumps(ast.dump(ast.parse(open(ast.__file__).read())))) for _ in range(2)]"


def tracing(table: Table, work: Path) -> None:
    """Trace a program in *work*, and add the rows."""
    program = [os.path.realpath("/usr/bin/python3"), "-S", "-c", _SCRIPT]
    traced = [str(HUGEALIGN), "trace", "-o", "bench.trace", "--", *program]
    table.compare("trace: Python, natively; traced", program, traced, 3, work)
    emulated = ["qemu-x86_64", *program]
    table.compare("trace: Python, by QEMU; traced", emulated, traced, 3, work)
    trace = open_trace(str(work / "bench.trace"))
    events = trace.description.events
    size = os.path.getsize(trace.path)
    print(f"  {events:,} blocks in {size:,} bytes: {size * 8 / events:.2f} bits each")
    for windows in (0, 2):
        for name in ("skylake", "zen3"):
            print(f"  simulated on {name}, {windows} windows: {_rate(trace, [name], [windows]):8.0f} million blocks/s")
    names, counts = ["skylake", "zen3"], range(9)
    result = original(trace, trace.description.program)
    variants = len({min(count, result.windows) for count in counts})
    rate = _rate(trace, names, counts)
    print(f"  {variants} numbers of windows on both, at once:  {rate:8.0f} million blocks/s, each of them counted once")


def _rate(trace: Trace, names: list[str], windows: "list[int] | range") -> float:
    """Return how many million blocks are simulated per second of processor time, the best of three."""
    best = 0.0
    for _ in range(3):
        began = time.process_time()
        placement = original(trace, trace.description.program)
        done = simulate(trace, [(placement, windows)], [geometry(find(name)) for name in names])
        best = max(best, done.events / 1e6 / (time.process_time() - began))
    return best


if __name__ == "__main__":
    subprocess.run(["qemu-x86_64", "--version"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(prefix="hugealign-bench-") as name:
        tracing(Table(), Path(name))
