"""The programs of the comparison: what defines one, and shared helpers to make them."""

import hashlib
import json
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import HUGEALIGN, LLVM, ROOT

WORK = ROOT / "build" / "bench" / "peers"
LLD = ("-fuse-ld=lld", f"-B{LLVM['lld19']}")
LINKERS = {"bfd": ("-fuse-ld=bfd",), "lld": LLD, "gold": ("-fuse-ld=gold",), "mold": ("-fuse-ld=mold",)}


@dataclass(frozen=True, slots=True)
class Program:
    """One program: *driver* with *words* links it in *directory*; *train*, *test* and *job* are arguments for it."""

    name: str
    about: str
    directory: Path
    driver: str
    words: tuple[str, ...]
    train: tuple[str, ...]
    test: tuple[str, ...]
    job: tuple[str, ...]
    #: Numbers of huge windows to look at: 0, 1, 8 and others.
    budgets: tuple[int, ...]
    #: Whether GNU ld takes so long that lld makes every build that does not have to be GNU ld's.
    large: bool
    #: How to recompile it, divided by an order file: returns the words that link the result, in place of `words`.
    divided: Callable[[Path], tuple[str, ...]] | None = None


def printed(argv: list[str]) -> list[str]:
    """Return the words in a command's output."""
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


def unpacked(directory: Path, packages: tuple[str, ...], proof: str) -> Path:
    """Return where Debian's *packages* are unpacked in *directory*; fetch them unless the file *proof* exists."""
    root = directory / "root"
    if not (root / proof).exists():
        subprocess.run(["apt-get", "-q", "download", *packages], cwd=directory, check=True)
        for package in directory.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, root], check=True)
            package.unlink()
    return root


def compiled(source: Path, target: Path, *words: str) -> str:
    """Compile *source* with *words* to the object *target* unless that exists and is newer; return its name."""
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        subprocess.run([*words, "-c", str(source), "-o", target.name], cwd=target.parent, check=True)
    return target.name


def fingerprint(command: Sequence[str], inputs: Iterable[Path]) -> list[str]:
    """Return a fingerprint of a *command* and its *inputs*; where hugealign runs, its own files are inputs too."""
    files = list(inputs)
    if str(HUGEALIGN) in command:
        files += sorted(
            path
            for tree in ("hugealign", "ld-scripts")
            for path in (ROOT / tree).rglob("*.*")
            if path.suffix in (".py", ".sh", ".ld")
        )
    return [*command, *(hashlib.sha256(item.read_bytes()).hexdigest() for item in files)]


def recorded(path: Path, mark: list[str]) -> dict[str, Any] | None:
    """Return the notes from when *path* was made, None if it is missing or was not made as *mark* says."""
    record = path.with_name(f"{path.name}.made")
    if not path.exists() or not record.exists():
        return None
    kept: dict[str, Any] = json.loads(record.read_text())
    return kept if kept["command"] == mark else None


def record(path: Path, mark: list[str], **noted: object) -> None:
    """Note how *path* was made."""
    path.with_name(f"{path.name}.made").write_text(json.dumps({"command": mark, **noted}))
