"""Print what importing a library costs: ``python -m lab.bench.costs.imports``; ARCHITECTURE.md has the result.

Processor time of ``python3 -I -c 'import MODULE'`` above that of ``python3 -I -c pass``, the least of 15 runs of each.
A library that is not installed for the Python that runs this is named as missing.
"""

import os
import resource
import subprocess
import sys

_MODULES = (
    "argparse",
    "dataclasses",
    "enum",
    "pathlib",
    "re",
    "typing",
    "tarfile",
    "zipfile",
    "elftools.elf.elffile",
    "lief",
    "libarchive",
    "google.protobuf.descriptor_pb2",
    "rich.progress",
    "tqdm",
)
_RUNS = 15


def processor_time(statement: str) -> float | None:
    """Return the seconds that Python needs to run *statement*, or None if it fails."""
    times = []
    for _ in range(_RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        if subprocess.run([sys.executable, "-I", "-c", statement], check=False, stderr=subprocess.DEVNULL).returncode:
            return None
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def main() -> None:
    """Print the table, and the load of the machine."""
    bare = processor_time("pass")
    if bare is None:
        raise SystemExit("python3 -I -c pass: failed")
    print(f"load {os.getloadavg()[0]:.1f}; Python alone: {bare * 1e3:.1f} ms")
    for module in _MODULES:
        time = processor_time(f"import {module}")
        print(f"{module:<32}", "not installed" if time is None else f"+{(time - bare) * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
