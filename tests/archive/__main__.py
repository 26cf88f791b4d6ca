"""``python -m tests.archive``: build Debian's source packages as they are and with hugealign, and compare.

Each package of packages.toml is built in a Debian 12 of its own, below build/archive, as Debian's build machines build
it: `dpkg-buildpackage -B`, its test suite on, no network, not root.  What came out is kept in
docs/measured/archive.json after each package, so that the command can be stopped and started again;
docs/measured/archive.md is written from it.  As root, for chroot and mounts; a network, for Debian's archive.
"""

import argparse
import fcntl
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.archive.comparing import differences, read
from tests.archive.packages import packages
from tests.archive.page import page
from tests.archive.root import PLACE, BusyError, UnavailableError, building
from tests.support import ROOT

STATE = ROOT / "docs" / "measured" / "archive.json"
_HOURS = 8  # what the largest may take


def main() -> int:
    """Run from the command line; return 1 if a difference between two builds has no cause yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", metavar="NAME", action="append", help="this package, also if it was built before")
    parser.add_argument("--again", action="store_true", help="also what was built before")
    parser.add_argument("--large", action="store_true", help="also the packages that take hours")
    parser.add_argument("--seconds", metavar="N", type=int, default=1 << 30, help="begin no package after N seconds")
    parser.add_argument("--limit", metavar="N", type=int, default=_HOURS * 3600, help="give one package N seconds")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what is half built is removed
    every = packages()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="archive-") as name:
        hugealign = None
        for package in every:
            if args.only:
                wanted = package.name in args.only
            else:
                wanted = (args.large or not package.large) and (args.again or unbuilt(package.name))
            if not wanted or time.monotonic() - began > args.seconds:
                continue
            hugealign = hugealign or our_package(Path(name))
            try:
                record = rebuilt(package.name, hugealign, args.limit)
            except BusyError:
                continue
            except UnavailableError as reason:
                print(f"{package.name}: {reason}", file=sys.stderr)
                return 3
            with state() as records:
                records[package.name] = record
            print(
                f"{package.name}: {record.get('unready') or '; '.join(record['differences']) or 'the same'}", flush=True
            )
    records = load()
    (STATE.with_suffix(".md")).write_text(page(every, records), encoding="utf-8")
    unexplained = [item.name for item in every if records.get(item.name, {}).get("differences") and not item.cause]
    print(f"{len(records)} packages, differences without a cause in: {', '.join(unexplained) or 'none'}")
    return int(bool(unexplained))


def unbuilt(name: str) -> bool:
    """Return whether the package *name* has no result, or could not be made ready."""
    return "unready" in load().get(name, {"unready": ""})


def our_package(place: Path) -> Path:
    """Build hugealign's own Debian package."""
    subprocess.run([ROOT / "packaging" / "deb.sh", place / "deb"], check=True, capture_output=True)
    (package,) = (place / "deb").glob("hugealign_*.deb")
    return package


def load() -> dict[str, Any]:
    """Return what is known of each package."""
    return json.loads(STATE.read_text(encoding="utf-8")) if STATE.exists() else {}


@contextmanager
def state() -> Iterator[dict[str, Any]]:
    """Yield what is known of each package, to be changed; others that run this wait."""
    with (PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        records = load()
        yield records
        new = STATE.with_suffix(".new")
        new.write_text(json.dumps(records, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
        new.rename(STATE)


def rebuilt(name: str, hugealign: Path, seconds: int) -> dict[str, Any]:
    """Build the package *name* twice; return what is to be known of that."""
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], capture_output=True, check=False)
    record: dict[str, Any] = {"commit": commit.stdout.decode().strip()}
    began = time.monotonic()
    with building(name, hugealign, seconds) as (status, results), tempfile.TemporaryDirectory(dir=results) as scratch:
        if not (results / "hugealign.status").exists():
            log = (results / "ready.log").read_text(encoding="utf-8", errors="replace").splitlines()
            output = next((line for line in log if line.startswith("E: ")), log[-1] if log else "")
            return record | {"unready": f"not in {seconds} s" if status == 124 else f"status {status}: {output}"}
        keep_logs(name, results)
        plain, ours = (read(results, which, Path(scratch, which)) for which in ("plain", "hugealign"))
        if plain.status:  # two builds that fail prove nothing
            return record | {"unready": f"as it is, it does not build here: status {plain.status}"}
        large = [path for path, program in ours.programs.items() if program.large]
        return record | {
            "version": (results / "version").read_text(encoding="ascii").strip(),
            "how": (results / "how").read_text(encoding="ascii").strip(),
            "seconds": round(time.monotonic() - began),
            "status": [plain.status, ours.status],
            "suite": plain.suite,
            "files": len(plain.files),
            "programs": len(plain.programs),
            "large": len(large),
            "windows": [sum(item.windows for item in build.programs.values()) for build in (plain, ours)],
            "differences": differences(plain, ours),
        }


def keep_logs(name: str, results: Path) -> None:
    """Keep the logs of the two builds of *name* below build/archive/logs."""
    logs = PLACE / "logs"
    logs.mkdir(exist_ok=True)
    for which in ("plain", "hugealign"):
        shutil.copyfile(results / f"{which}.log", logs / f"{name}.{which}.log")


if __name__ == "__main__":
    sys.exit(main())
