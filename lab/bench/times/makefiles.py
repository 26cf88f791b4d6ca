"""What a program's own Makefiles compile and link, seen by a compiler that writes its words down."""

import dataclasses
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

_LOGGING = """\
#!/bin/sh
echo "$PWD $*" >>{log}
exec clang-19 "$@"
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Linked:
    """The *sources* of a program in the linker's order, the *words* that compiled each, and those of its *link*."""

    sources: list[Path]
    words: list[list[str]]
    link: list[str]


def build(directory: Path, tree: Path, configure: Sequence[str], targets: Sequence[str]) -> None:
    """Configure *tree* and make *targets*, unless that was done, with a log in *directory*."""
    log, done = directory / "compiled", directory / "built"
    if done.exists():
        return
    log.unlink(missing_ok=True)
    compiler = directory / "cc"
    compiler.write_text(_LOGGING.format(log=log), encoding="ascii")
    compiler.chmod(0o755)
    subprocess.run(["./configure", f"CC={compiler}", *configure], cwd=tree, check=True, capture_output=True)
    for target in targets:
        subprocess.run(["make", "-j", str(os.cpu_count()), target], cwd=tree, check=True, capture_output=True)
    done.touch()


def linked(directory: Path, program: str) -> Linked:
    """Return how *program* was linked, by the log in *directory*."""
    made: dict[Path, tuple[Path, list[str]]] = {}
    link: tuple[str, list[str]] = ("", [])
    for line in (directory / "compiled").read_text().splitlines():
        place, *words = line.split()
        if "-c" in words and "-o" in words and words[-1].endswith((".c", ".S")):
            made[Path(place, words[words.index("-o") + 1]).resolve()] = Path(place, words[-1]).resolve(), words
        elif words[-2:] == ["-o", program]:
            link = place, words
    place, words = link
    objects = [made[Path(place, word).resolve()] for word in words if word.endswith(".o")]
    absolute = [str(Path(place, word).resolve()) if word.endswith(".a") else word for word in words]
    return Linked([source for source, _ in objects], [words for _, words in objects], absolute)
