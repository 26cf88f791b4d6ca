"""Print what importing a library costs: ``python -m lab.bench.costs.imports``; ARCHITECTURE.md has the result.

Processor time of ``python3 -I -c 'import MODULE'`` above that of ``python3 -I -c pass``, the least of 36 runs of each,
by turns, since a busy machine is not equally busy for all.  A library that is not installed for the Python that runs
this is named as missing.
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
    "scipy.stats",
    "capstone",
    "iced_x86",
)
_RUNS = 36


def processor_time(*command: str) -> float | None:
    """Return the seconds that *command* needs, or None if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        return None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print the table, and the load of the machine."""
    python = (sys.executable, "-I", "-c")
    commands: dict[str, tuple[str, ...]] = {module: (*python, f"import {module}") for module in _MODULES}
    commands |= {"Python alone": (*python, "pass"), "ldd": ("ldd", "/bin/sh")}
    least: dict[str, float] = {}
    for _ in range(_RUNS):
        for name, command in commands.items():
            if (time := processor_time(*command)) is not None:
                least[name] = min(time, least.get(name, time))
    bare = least["Python alone"]
    print(f"load {os.getloadavg()[0]:.1f}")
    for name in commands:
        above = bare if name in _MODULES else 0.0
        print(f"{name:<32}", f"{(least[name] - above) * 1e3:.1f} ms" if name in least else "not installed")


if __name__ == "__main__":
    main()
