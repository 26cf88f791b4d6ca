"""``python -m tests.prebuilt``: fix what Debian and others have built, run it, and write docs/measured/prebuilt.md.

Packages are downloaded with apt and pip and unpacked below build/prebuilt; nothing of the machine is changed.  A file
is fixed in its place there, does a small job of its own before and after, and is undone again.  What it has mapped is
read from ``smaps`` while it runs, at the moment when it is about to exit.  As root, for servers that want another user.
"""

import argparse
import ctypes
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hugealign.io.units import format_size
from tests.support import HUGEALIGN, ROOT

BUILD = ROOT / "build" / "prebuilt"
DEBS, TREE, WHEELS, NPM = BUILD / "debs", BUILD / "root", BUILD / "python", BUILD / "npm"
CASES = ROOT / "tests" / "prebuilt" / "cases.toml"
_SECONDS = 120
_TRACEME, _CONT, _SETOPTIONS, _TRACEEXIT, _EXITKILL, _EVENT_EXIT = 0, 7, 0x4200, 0x40, 0x100000, 6


@dataclass(frozen=True, slots=True)
class Case:
    """One file of cases.toml, which says what the fields mean."""

    name: str
    packages: str
    path: str
    job: str
    setup: str = ""
    wheels: bool = False
    platform: str = ""
    npm: str = ""


class SkipError(Exception):
    """The case cannot be tried here, and why."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a job printed, its status, and the KiB of the file's text that were mapped, and by huge pages."""

    status: int
    printed: bytes
    complaint: str
    mapped: int
    huge: int


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="TEXT", help="only cases with this in their name")
    parser.add_argument("--write", metavar="FILE", help="write the table to FILE (docs/measured/prebuilt.md)")
    args = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    rows, failed = [], []
    for case in cases_of(CASES):
        if args.only and args.only not in case.name:
            continue
        try:
            row = examine(case)
        except SkipError as reason:
            row = f"| {case.name} | not tried: {reason} | | | | | |"
        except AssertionError as error:
            failed.append(f"{case.name}: {error}")
            row = f"| {case.name} | FAILED | | | | | |"
        print(row, flush=True)
        rows.append(row)
    for failure in failed:
        print(failure, file=sys.stderr)
    if args.write:
        Path(args.write).write_text(page(rows), encoding="utf-8")
    return int(bool(failed))


def unchanged(path: Path) -> str:
    """Return why `fix` leaves the file at *path* as it is, and what would give it more windows."""
    (file,) = json.loads(hugealign("fix", "--dry-run", "--json", path).stdout)["files"]
    reasons = [way["refused"]["message"] for way in file["ways"] if way["refused"]]
    if more := file["more"]:
        size = format_size(more["facts"]["data"])
        reasons.append(f"{more['remedy']['after']} windows if {size} of data become executable")
    return "; ".join(reasons)


def examine(case: Case) -> str:
    """Do all that there is to do with *case*; return its row of the table.  Raises SkipError, AssertionError."""
    path = fetched(case)
    original = path.read_bytes()
    done = hugealign("fix", "--in-place", path)
    if done.returncode == 1:
        reason = done.stderr.rstrip("\n").split(f"{path}: ")[1]
        assert path.read_bytes() == original, "changed in spite of the refusal"
        return f"| {case.name} | refused: {reason} | | | | | |"
    assert done.returncode == 0, done.stderr
    if same := re.search(r": nothing to do: ([\d.]+) % of ([\d.]+ \w+)", done.stdout):
        assert path.read_bytes() == original
        return f"| {case.name} | {same[2]} | as before: {unchanged(path)} | {same[1]} % | | | |"
    try:
        fixed = path.read_bytes()
        after = job(case, path)
    finally:
        back = hugealign("fix", "--undo", path)
    assert back.returncode == 0, back.stderr
    assert path.read_bytes() == original, "undoing gave another file"
    before = job(case, path)
    assert (after.status, after.printed) == (before.status, before.printed), (
        f"status {before.status} -> {after.status}, printed {before.printed[-300:]!r} -> {after.printed[-300:]!r}"
    )
    if before.status:
        raise SkipError(f"its job does not run here: {before.complaint}")
    text_out = done.stdout
    windows = find(r": (\d+) -> (\d+) windows?", text_out)
    text = find(r"windows: ([\d.]+) % of [\d.]+ \w+ -> ([\d.]+) % of ([\d.]+ \w+)", text_out)
    executable = find(r"([\d.]+ \w+) of read-only data become executable", text_out)[0]
    grown = len(fixed) - len(original)
    return (
        f"| {case.name} | {text[2]} | {windows[0]} → {windows[1]} | {text[0]} → {text[1]} % | {executable} "
        f"| {format_size(grown)} | {mapped(before)} → {mapped(after)} |"
    )


def cases_of(path: Path) -> list[Case]:
    """Return the cases of a file like cases.toml."""
    with path.open("rb") as stream:
        return [Case(**fields) for fields in tomllib.load(stream)["case"]]


def fetched(case: Case) -> Path:
    """Return the file of *case*, with one name, unpacked with its packages.  Raises SkipError."""
    if case.npm:
        place = fetch_npm(case.npm)
    elif case.wheels:
        place = fetch_wheels(case.packages.split(), case.platform)
    else:
        place = fetch_packages(case.packages.split())
    result = [path for path in sorted(place.glob(case.path)) if not path.is_symlink()]
    if not result:
        raise SkipError("the package has another layout")
    path = result[-1]
    if path.stat().st_nlink > 1:  # a copy would take the place of one name only: `fix` refuses that
        alone = path.with_name(f"{path.name}.alone")
        shutil.copy2(path, alone)
        alone.replace(path)
    return path


def find(pattern: str, text: str) -> tuple[str, ...]:
    """Return the groups of the first match.  Raises AssertionError."""
    match = re.search(pattern, text)
    assert match, text
    return match.groups()


def mapped(run: Run) -> str:
    """Return how much of the text a process had on huge pages."""
    return f"{run.huge >> 10} of {-(-run.mapped // 1024)} MiB"


def hugealign(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the tool."""
    return subprocess.run([HUGEALIGN, *words], capture_output=True, text=True, check=False)


def fetch_packages(names: list[str]) -> Path:
    """Download *names* and what they need that is not installed here, and unpack it all below TREE; return that."""
    DEBS.mkdir(exist_ok=True)
    TREE.mkdir(exist_ok=True)
    for name in names:
        marker = DEBS / f"{name}.unpacked"
        if marker.exists():
            continue
        words = ["apt-get", "install", "--print-uris", "-qq", "-y", "--no-install-recommends", name]
        uris = subprocess.run(words, capture_output=True, text=True, check=False).stdout.splitlines()
        needed = {line.split()[1].partition("_")[0] for line in uris if line.startswith("'")} | {name}
        missing = [package for package in sorted(needed) if not list(DEBS.glob(f"{package}_*.deb"))]
        if missing:
            # The newest of the archive, whatever is installed.
            listed = subprocess.run(["apt-cache", "madison", *missing], capture_output=True, text=True, check=False)
            known = [line.split("|") for line in reversed(listed.stdout.splitlines())]
            newest = {columns[0].strip(): f"={columns[1].strip()}" for columns in known}
            words = ["apt-get", "download", "-q", *(package + newest.get(package, "") for package in missing)]
            if subprocess.run(words, cwd=DEBS, capture_output=True, check=False).returncode:
                raise SkipError(f"cannot download the package {name}, or one that it needs")
        for package in sorted(needed):
            subprocess.run(["dpkg-deb", "-x", max(DEBS.glob(f"{package}_*.deb")), TREE], check=True)
        marker.touch()
    return TREE


def fetch_wheels(names: list[str], platform: str) -> Path:
    """Download the wheels *names*, without what they need, and unpack them below WHEELS; return that.

    *platform*: if not ours.
    """
    WHEELS.mkdir(exist_ok=True)
    for name in names:
        marker = WHEELS / f"{name}.unpacked"
        if marker.exists():
            continue
        with tempfile.TemporaryDirectory(dir=BUILD) as directory:
            words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", name]
            words += ["--platform", platform] if platform else []
            if subprocess.run(words, cwd=directory, capture_output=True, check=False).returncode:
                raise SkipError(f"cannot download the wheel {name}")
            for wheel in Path(directory).glob("*.whl"):
                zipfile.ZipFile(wheel).extractall(WHEELS)
        marker.touch()
    return WHEELS


def fetch_npm(name: str) -> Path:
    """Download the package *name* of npm and unpack it below NPM; return that."""
    directory = NPM / name
    if not (directory / "package").exists():
        directory.mkdir(parents=True, exist_ok=True)
        if subprocess.run(
            ["npm", "pack", "--silent", name], cwd=directory, capture_output=True, check=False
        ).returncode:
            raise SkipError(f"cannot download the package {name} of npm")
        subprocess.run(["tar", "-xf", next(directory.glob("*.tgz")), "-C", directory], check=True)
    return NPM


def job(case: Case, path: Path, *, warm: bool = True) -> Run:
    """Warm *path*, then run the job of *case*."""
    if warm:
        hugealign("warm", path)
    libraries = [str(TREE / "usr/lib/x86_64-linux-gnu"), str(TREE / "lib/x86_64-linux-gnu")]
    libraries += sorted({str(p.parent) for p in TREE.glob("usr/lib/x86_64-linux-gnu/*/*.so*")})
    libraries += [str(TREE / "usr/lib/R/lib"), str(TREE / "usr/lib/llvm-19/lib")]
    with tempfile.TemporaryDirectory(prefix="hugealign-prebuilt-") as work:
        Path(work).chmod(0o755)
        kept = ("PATH", "TERM")
        env = {k: os.environ[k] for k in kept if k in os.environ} | {"LC_ALL": "C", "HOME": work, "LANG": "C"}
        env |= {"LD_LIBRARY_PATH": ":".join(libraries), "GOROOT": str(TREE / "usr/lib/go-1.19")}
        fill = {"root": TREE, "wheels": WHEELS, "npm": NPM, "work": work, "file": path}
        setup = case.setup.format(**fill)
        prepared = subprocess.run(["bash", "-c", setup or ":"], cwd=work, env=env, capture_output=True, check=False)
        if prepared.returncode:
            raise SkipError(f"its job cannot be prepared: {prepared.stderr.decode(errors='replace').strip()[-100:]}")
        done = traced(["bash", "-c", f"cd {work}; " + case.job.format(**fill)], env, path)
        return Run(done.status, done.printed.replace(work.encode(), b"WORK"), done.complaint, done.mapped, done.huge)


def traced(words: list[str], env: dict[str, str], path: Path) -> Run:
    """Run *words* and read the mappings of *path* when the process is about to exit (ptrace(2), PTRACE_EVENT_EXIT)."""
    libc = ctypes.CDLL(None, use_errno=True)
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        pid = os.fork()
        if pid == 0:
            try:
                os.dup2(output.fileno(), 1)
                os.dup2(errors.fileno(), 2)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                libc.ptrace(_TRACEME, 0, None, None)
                signal.alarm(_SECONDS)
                os.execvpe(words[0], words, env)  # noqa: S606
            finally:
                os._exit(127)
        status, most = 0, (0, 0)
        first = True
        while True:
            _, status = os.waitpid(pid, 0)
            if not os.WIFSTOPPED(status):
                break
            forward = os.WSTOPSIG(status)
            if first:
                libc.ptrace(_SETOPTIONS, pid, None, ctypes.c_void_p(_TRACEEXIT | _EXITKILL))
                first = False
            if status >> 16 == _EVENT_EXIT:
                most = max(most, text_of(pid, path))
            if forward == signal.SIGTRAP:
                forward = 0
            libc.ptrace(_CONT, pid, None, ctypes.c_void_p(forward))
        output.seek(0)
        errors.seek(0)
        complaint = errors.read().decode(errors="replace").strip().rpartition("\n")[2][-120:]
        return Run(os.waitstatus_to_exitcode(status), output.read(), complaint, *most)


def text_of(pid: int, path: Path) -> tuple[int, int]:
    """Return the KiB of text of *path* in process *pid*: mapped, and by huge pages."""
    size = huge = 0
    inside = False
    for line in Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            inside = "x" in words[1] and line.endswith(str(path))
        elif inside and words[0] == "Size:":
            size += int(words[1])
        elif inside and words[0] in ("FilePmdMapped:", "ShmemPmdMapped:"):
            huge += int(words[1])
    return size, huge


def page(rows: list[str]) -> str:
    """Return docs/measured/prebuilt.md."""
    tried = [row for row in rows if "not tried" not in row]
    refused = [row for row in tried if "| refused: " in row]
    same = [row for row in tried if "| as before: " in row]
    done = [row for row in tried if row not in refused and row not in same]
    grown = [row for row in done if row.split("|")[5].strip() != "0 B"]
    kernel = ".".join(platform.release().split(".")[:2])
    debian = Path("/etc/debian_version").read_text(encoding="ascii").strip()
    return f"""# Prebuilt programs and libraries

`hugealign fix` fixed {len(done)} of {len(tried)} files of Debian and PyPI, refused {len(refused)} and left {len(same)}.
In {len(grown)} fixed files some data became executable as well.

| | files |
|---|--:|
| refused | {len(refused)} |
| left as they were, because nothing in them can move | {len(same)} |
| fixed | {len(done)} |

Each fixed file was warmed and given a small job of its own; its exit status and output were the same before and after
the fix. Undoing the fix restored each file byte for byte.

## How it was made

Written by `make test-prebuilt` on {datetime.now(tz=UTC):%Y-%m-%d} (Debian {debian}, Linux {kernel}).

- *windows*: whole 2 MiB windows in the file, before and after. *covered*: the share of its text in them.
- *executable*: read-only data that became executable as well. *growth*: how much larger the file became.
- *running*: how much of the mapped text was on huge pages when the job was about to end. The kernel maps a window when
  the program first touches it, so text that a small job does not touch is missing. Libraries have some huge text
  before the fix as well: this kernel puts large file mappings on window boundaries, whatever `p_align` says
  (`thp_get_unmapped_area`); other kernels do not.

<details><summary>All files</summary>

| file | text | windows | covered | executable | growth | running |
|---|--:|--:|--:|--:|--:|--:|
{chr(10).join(rows)}

</details>
"""


if __name__ == "__main__":
    sys.exit(main())
