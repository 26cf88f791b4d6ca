"""``python -m tests.fresh``: type the manual in a fresh Debian 12 and 13, and write down what came of it.

README.md and docs/guides/install.md are typed first, in a clone of this checkout, with the packages that they name and
no others.  Then come the packages of the table in docs/guides/install.md, QEMU as docs/explanation/trace.md builds it
where the package takes no plugins, and with them the blocks of all pages, typed by tests/build/test_manual.py,
test_samples.py and tests/live/test_tour.py.  What is printed is kept below build/fresh, to be read.  A release that has
been typed at this commit is left out.  With --tests the README's other command is typed too, `make test`, which takes a
quarter of an hour.  As root, with a network.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

from tests import debian
from tests.build.manual import blocks
from tests.support import ROOT, run

STATE = ROOT / "docs" / "measured" / "typed.json"
INSTALL = ROOT / "docs" / "guides" / "install.md"
TRACE = ROOT / "docs" / "explanation" / "trace.md"
RELEASES = {"bookworm": "Debian 12", "trixie": "Debian 13"}
_PLACE = ROOT / "build" / "fresh"
_CLONE = "/srv/hugealign"  # where other users can read it
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
#: What a reader of the README has: the means to clone it, and what it says that `make demo` needs.
_FIRST = "git sudo gcc make python3"
#: What types the blocks of the pages, and nothing that they are about.
_TYPIST = "python3-pytest python3-pytest-timeout python3-pyelftools"
_TESTS = "tests/build/test_manual.py tests/build/test_samples.py tests/live/test_tour.py"
VERSIONS = (
    ("gcc", "gcc -dumpfullversion"),
    ("binutils", "ld -v | grep -o '[0-9.]*$'"),
    ("Python", "python3 -c 'import platform; print(platform.python_version())'"),
    ("CMake", "cmake --version | grep -om1 '[0-9.]*$'"),
    ("Meson", "meson --version"),
    ("clang", "clang-19 -dumpversion"),
)


def head() -> str:
    """Return the commit that is typed from."""
    return run("git", "-C", ROOT, "rev-parse", "--short=12", "HEAD", check=True).stdout.strip()


class Fresh:
    """A Debian that was just unpacked, and the log of what is typed in it."""

    def __init__(self, release: str) -> None:
        self.root = _PLACE / release
        self.log = _PLACE / f"{release}.log"
        shutil.rmtree(self.root, ignore_errors=True)
        debian.unpacked(release, self.root)
        self.log.write_text("", encoding="utf-8")
        if _CERTIFICATES.exists():  # whom pip trusts is a matter of this network
            shutil.copy(_CERTIFICATES, self.root / "etc/certificates")
            (self.root / "etc/pip.conf").write_text("[global]\ncert = /etc/certificates\n", encoding="ascii")
        source = self.root / "srv/hugealign.git"
        run("git", "clone", "-q", "--bare", "--no-hardlinks", ROOT, source, check=True)
        self.commit = head()

    def types(self, title: str, commands: str, directory: str = _CLONE) -> bool:
        """Run *commands* by bash in *directory*; what they print goes to the log.  Return whether all succeeded."""
        with self.log.open("a", encoding="utf-8") as log:
            print(f"\n=== {title}", file=log, flush=True)
            script = f"set -o pipefail; cd {directory}\n{commands}"
            words = debian.entering(self.root, script, interpreter="bash")
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False, timeout=2 * debian.SECONDS
            )
            print(f"=== status {done.returncode}", file=log)
        print(f"{self.root.name}: {title}: {'status ' * bool(done.returncode)}{done.returncode or 'ok'}", flush=True)
        return done.returncode == 0

    def said(self, commands: str) -> str:
        """Return what *commands* print."""
        words = debian.entering(self.root, commands, interpreter="bash")
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60).stdout.strip()


def needed() -> list[str]:
    """Return the packages of the table in docs/guides/install.md."""
    rows = re.findall(r"^\| .* \| (.*) \|$", INSTALL.read_text(encoding="utf-8"), re.MULTILINE)
    return sorted({name for row in rows for name in re.findall(r"`([a-z][a-z0-9.+-]+)`", row)})


def typed(release: str, tests: bool) -> dict[str, Any]:
    """Type everything in a fresh *release*, with *tests* also the command that runs them; return the record of it."""
    fresh = Fresh(release)
    result: dict[str, str] = {}

    def note(name: str, success: bool) -> None:
        result[name] = "typed" if success else "failed"

    if not fresh.types("what a reader has", f"apt-get -q update && apt-get -q install {_FIRST}", "/root"):
        raise debian.UnavailableError(f"{release}: see {fresh.log}")
    fresh.types("a clone", f"git clone -q /srv/hugealign.git {_CLONE}", "/root")
    note("README.md: make demo", fresh.types("README.md: make demo", "make demo"))
    if tests:
        note("README.md: make test", fresh.types("README.md: make test", "make test"))
    for block in blocks(INSTALL):
        note(str(block), fresh.types(str(block), block.commands))
    packages = " ".join([*needed(), *_TYPIST.split()])
    fresh.types("what the pages need", f"apt-get -q install --no-install-recommends {packages}")
    path = "PATH=$PATH"
    if not fresh.said("qemu-x86_64 --help | grep ^-plugin"):
        (block,) = (block for block in blocks(TRACE) if block.what == "tests/fresh.py")
        fresh.types("sources in apt", "sed 's/^deb /deb-src /' /etc/apt/sources.list >/etc/apt/sources.list.d/src.list")
        fresh.types("what apt has", "apt-get -q update")
        note(str(block), fresh.types(str(block), f"{block.commands}echo PATH=$PATH >/root/path", "/root"))
        path = fresh.said("cat /root/path") or path
    # Without the project's configuration, which Debian 12's pytest is too old for.
    arguments = "-c /dev/null --rootdir=. --timeout=300 -p no:cacheprovider -m 'matrix or not matrix' -rP"
    arguments += " -o junit_family=xunit1 --junitxml=/root/typed.xml"
    fresh.types("the pages", f"{path} python3 -m pytest {arguments} {_TESTS}")
    result |= tested(fresh.root / "root/typed.xml")
    versions = {name: fresh.said(commands) for name, commands in VERSIONS}
    shutil.rmtree(fresh.root)
    return {"day": time.strftime("%Y-%m-%d"), "commit": fresh.commit, "versions": versions, "found": result}


def tested(results: Path) -> dict[str, str]:
    """Return what came of each page's blocks, from pytest's *results*.  Raises UnavailableError if it ran none."""
    result = {}
    for case in ET.parse(results).iter("testcase"):  # noqa: S314 - our own pytest wrote it
        module, name = case.attrib["classname"].rpartition(".")[2], case.attrib["name"]
        inside = re.search(r"\[(.*)\]", name)
        if name.startswith("test_run[") and inside:
            name = inside[1]
        elif module == "test_samples" and name.startswith("test_samples[") and inside:
            name = f"{inside[1]}: samples"
        elif module == "test_tour":
            name = f"README.md: the tour, {inside[1] if inside else ''}"
        else:
            continue
        skipped = case.find("skipped")
        failed = case.find("failure") is not None or case.find("error") is not None
        result[name] = "failed" if failed else f"not: {skipped.attrib['message']}" if skipped is not None else "typed"
    if not result:
        raise debian.UnavailableError("no page was typed: see the log below build/fresh")
    return result


_PAGE = """\
# The manual's commands on fresh Debian

{failed} of {all} runs of the blocks on the pages below failed on a fresh {releases}.

{rows}
{missing}
## How it was made

`make test-fresh` writes this page: it types commands of the manual in a freshly unpacked Debian. Only pytest and the
packages that [Install](../guides/install.md) names are installed. The kernel and file system are those of the host.
`tests/prebuilt/test_debian.py` runs [Finished programs](../guides/fix.md) in a separate Debian,
`tests/live/test_servers.py` the second way of the README and the finished server in a booted one. The comment before a
block that is not run says why.

{machines}
"""


def page(records: dict[str, Any]) -> str:
    """Return docs/measured/typed.md."""
    releases = [release for release in RELEASES if release in records]
    names = [RELEASES[release] for release in releases]
    top = [f"| | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    machines = [
        f"| {title} | {' | '.join(records[release][key] for release in releases)} |"
        for title, key in (("day", "day"), ("commit", "commit"))
    ]
    machines += [
        f"| {name} | {' | '.join(records[release]['versions'][name] for release in releases)} |" for name, _ in VERSIONS
    ]
    counts = {release: Counter[tuple[str, str]]() for release in releases}
    total: Counter[str] = Counter()
    for release in releases:
        for name, outcome in records[release]["found"].items():
            counts[release][name.partition(":")[0], outcome.partition(":")[0]] += 1
            total[outcome.partition(":")[0]] += 1
    rows = []
    for document in sorted({document for count in counts.values() for document, _ in count}):
        cells = []
        for release in releases:
            done, failed, missed = (counts[release][document, what] for what in ("typed", "failed", "not"))
            every = done + failed + missed
            cells.append(f"{done} of {every}{f', {failed} failed' * bool(failed)}" if every else "--")
        rows.append(f"| {document} | {' | '.join(cells)} |")
    reasons = [
        f"- {RELEASES[release]}, {name}: {outcome.removeprefix('not: ')}"
        for release in releases
        for name, outcome in records[release]["found"].items()
        if outcome != "typed"
    ]
    return _PAGE.format(
        failed=total["failed"],
        all=total.total(),
        releases=" and ".join(names),
        rows="\n".join([*top, *rows]),
        missing="".join(["\nNot typed, or failed:\n\n", *(f"{line}\n" for line in reasons)]) if reasons else "",
        machines="\n".join([*top, *machines]),
    )


def load() -> dict[str, Any]:
    """Return what is known of each release."""
    return json.loads(STATE.read_text(encoding="utf-8")) if STATE.exists() else {}


def main() -> int:
    """Run from the command line; return 1 if something that was typed failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--release", choices=RELEASES, action="append", help="this one, also if it was typed before")
    parser.add_argument("--tests", action="store_true", help="also `make test`, a quarter of an hour for each release")
    args = parser.parse_args()
    for release in args.release or RELEASES:
        if not args.release and load().get(release, {}).get("commit") == head():
            continue
        try:
            record = typed(release, args.tests)
        except debian.UnavailableError as why:
            print(why, file=sys.stderr)
            return 3
        STATE.write_text(json.dumps(load() | {release: record}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    records = load()
    STATE.with_suffix(".md").write_text(page(records), encoding="utf-8")
    failed = [name for record in records.values() for name, what in record["found"].items() if what == "failed"]
    print("failed:", ", ".join(failed) or "none")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
