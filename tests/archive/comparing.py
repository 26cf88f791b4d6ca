"""Two builds of one package, each read, and what is different between them."""

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hugealign.elf.guards import Guards, read_guards, weaker
from hugealign.elf.image import read_image
from hugealign.errors import HugealignError
from tests.archive.suites import summaries
from tests.support import HUGEALIGN, run

#: What names a file, or its directory, by contents: the debug files of programs.
_BUILD_ID = re.compile(r"\.build-id/[0-9a-f]{2}/[0-9a-f]*")
_FIELDS = ("Package", "Architecture", "Depends", "Pre-Depends", "Provides")
_SHOWN = 6  # differences of one kind that are named


@dataclass(frozen=True, slots=True)
class Program:
    """A program or library in a package: its guards, and what verify says of it."""

    guards: Guards
    windows: int = 0
    large: bool = False
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Build:
    """One build of a package: its status, what the test suite said, and what lies in the packages."""

    status: int
    suite: list[str] = field(default_factory=list)
    fields: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    programs: dict[str, Program] = field(default_factory=dict)


def read(results: Path, name: str, scratch: Path) -> Build:
    """Return the build *name* whose results build.sh has left; its packages are unpacked below *scratch*."""
    status = int((results / f"{name}.status").read_text(encoding="ascii"))
    log = (results / f"{name}.log").read_text(encoding="utf-8", errors="replace")
    fields, files = [], []
    for package in sorted((results / name).glob("*.deb")):
        fields += [f"{package.name.partition('_')[0]} {line}" for line in _output("dpkg-deb", "-f", package, *_FIELDS)]
        listed = (line.split(maxsplit=5) for line in _output("dpkg-deb", "-c", package))
        files += [_BUILD_ID.sub(".build-id/…", f"{mode} {owner} {path}") for mode, owner, _, _, _, path in listed]
        if not package.name.partition("_")[0].endswith("-dbgsym"):
            subprocess.run(["dpkg-deb", "-x", package, scratch], check=True)
    return Build(status, summaries(log), sorted(fields), sorted(files), dict(_programs(scratch)))


def _output(*words: object) -> list[str]:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def _programs(tree: Path) -> Iterator[tuple[str, Program]]:
    if not tree.exists():
        return
    done = run(HUGEALIGN, "verify", "--json", "--config=/dev/null", "--recursive", "--allow-empty", tree)
    for output in json.loads(done.stdout)["files"]:
        if "coverage" not in output:
            continue
        path = output["path"]
        fd = os.open(path, os.O_RDONLY)
        try:
            guards = read_guards(fd, read_image(fd))
        except HugealignError:
            continue
        finally:
            os.close(fd)
        findings = tuple(sorted({item["code"] for item in output["diagnoses"] if item["severity"] == "error"}))
        yield (
            os.path.relpath(path, tree),
            Program(guards, output["coverage"]["windows"], not output["small"], findings),
        )


def differences(plain: Build, ours: Build) -> list[str]:
    """Return what *ours* has different from *plain*, in words, and each finding that is left in it."""
    result = []
    if plain.status != ours.status:
        result.append(f"status: {plain.status} → {ours.status}")
    for what, before, after in (
        ("test suite", plain.suite, ours.suite),
        ("control field", plain.fields, ours.fields),
        ("file", plain.files, ours.files),
    ):
        result += _lists(what, before, after)
    for path, program in ours.programs.items():
        if path in plain.programs and (why := weaker(program.guards, plain.programs[path].guards)):
            result.append(f"weaker: {path}: {why}")
        if program.findings:
            result.append(f"verify: {path}: {', '.join(program.findings)}")
    return result


def _lists(what: str, before: Sequence[str], after: Sequence[str]) -> list[str]:
    gone, new = Counter(before) - Counter(after), Counter(after) - Counter(before)
    result = [f"{what}: - {line}" for line in gone.elements()] + [f"{what}: + {line}" for line in new.elements()]
    rest = len(result) - _SHOWN
    return result if rest <= 0 else [*result[:_SHOWN], f"{what}: {rest} more"]
