"""Debian's packages and Debian's source, without touching the system's own apt configuration."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from steps import Failed, Steps

_FIELDS = ("Signed-By", "Trusted", "Check-Valid-Until")

# The system's lists and caches stay as they are.
_CONFIGURATION = """\
Dir::Etc::sourcelist "{apt}/debian.sources";
Dir::Etc::sourceparts "/dev/null";
Dir::State::lists "{apt}/lists";
Dir::Cache "{apt}/cache";
Acquire::Languages "none";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""


def codename() -> str:
    """Return Debian's name of this release; raises Failed on another system."""
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        text = ""
    words = dict(re.findall(r'(?m)^(\w+)="?([^"\n]*)"?$', text))
    if (words.get("ID"), words.get("VERSION_CODENAME")) != ("debian", "bookworm"):
        raise Failed(f"this example is for Debian 12 (bookworm); this machine says {words.get('PRETTY_NAME')}", 3)
    return "bookworm"


# ---- packages --------------------------------------------------------------------------------------------------------


def install(work: Steps, packages: Sequence[str]) -> None:
    """Install what is missing of *packages*, as root; raises Failed."""
    query = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\n", *packages],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    there = {line.split()[0] for line in query.stdout.splitlines() if line.split()[1:] == ["ii"]}
    missing = [name for name in packages if name not in there]
    if not missing:
        return
    root = [] if os.geteuid() == 0 else ["sudo"]
    if root and not shutil.which("sudo"):
        raise Failed(f"needs root for: apt-get install {' '.join(missing)}", 3)
    work.say(f"installing {' '.join(missing)} …")
    apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300"]
    with work.log("packages").open("w") as log:
        for _ in range(3):  # another apt may hold the lock on the lists for a moment
            subprocess.run([*apt, "update"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
            command = [*apt, "install", "-y", "--no-install-recommends", *missing]
            if not subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False).returncode:
                return
            time.sleep(10)
    raise Failed(f"cannot install {' '.join(missing)}: see {work.log('packages')}", 3)


# ---- the source ------------------------------------------------------------------------------------------------------


def stanzas(path: str, text: str, suite: str) -> Iterator[str]:
    """Yield what apt's file *path* says of *suite*, main component, as ``deb-src`` stanzas of the deb822 form."""
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for uri, fields in _deb822(text) if path.endswith(".sources") else _one_line(text):
        if uri.startswith("cdrom:") or "main" not in fields.get("components", "").split():
            continue
        if suite in fields.get("suites", "").split():
            extra = "".join(f"{name}: {fields[name.lower()]}\n" for name in _FIELDS if name.lower() in fields)
            yield f"Types: deb-src\nURIs: {uri}\nSuites: {suite}\nComponents: main\n{extra}"


def _deb822(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    for stanza in re.split(r"\n(?:[ \t]*\n)+", text):
        found = re.findall(r"(?m)^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t].*)*)", stanza)
        fields = {name.lower(): value for name, value in found}
        if fields.get("enabled", "yes").strip().lower() not in {"no", "false", "without", "off", "disable", "0"}:
            for uri in fields.get("uris", "").split():
                yield uri, fields


def _one_line(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    for options, uri, suite, components in re.findall(
        r"(?m)^\s*deb(?:-src)?\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s+(.*)", text
    ):
        fields = {"suites": suite, "components": components}
        for name, value in re.findall(r"([^=\s]+?)[+-]?=(\S*)", options):
            fields[name.lower()] = value
        yield uri, fields


def fetch(work: Steps, package: str) -> None:
    """Unpack Debian's source of *package* below ``source``; raises Failed."""
    apt, source = work.directory("apt"), work.directory("source")
    work.directory("apt", "cache")
    work.directory("apt", "lists")
    work.directory("apt", "lists", "partial")
    shell = work.output(["apt-config", "shell", "list", "Dir::Etc::sourcelist/f", "parts", "Dir::Etc::sourceparts/d"])
    places = dict(re.findall(r"(?m)^(\w+)='(.*)'$", shell))
    parts = Path(places["parts"])
    files = [Path(places["list"]), *sorted(parts.glob("*.list")), *sorted(parts.glob("*.sources"))]
    suite = codename()
    found = dict.fromkeys(
        stanza
        for path in files
        if path.is_file()
        for stanza in stanzas(path.name, path.read_text(encoding="utf-8", errors="replace"), suite)
    )
    if not found:
        raise Failed(f"no entry for Debian's {suite} main in {', '.join(map(str, files))}", 3)
    configuration = apt / "apt.conf"
    configuration.write_text(_CONFIGURATION.format(apt=apt), encoding="utf-8")
    sources = apt / "debian.sources"
    sources.write_text("\n".join(found), encoding="utf-8")
    work.run(["apt-get", "-c", configuration, "update"], log="source")

    # A vendor's archive may use the same suite names: only what the signed release file calls Debian stays.
    form = "$(ORIGIN)|$(REPO_URI)|$(RELEASE)"
    targets = work.output(
        ["apt-get", "-c", configuration, "indextargets", "--format", form, "Created-By: Sources"]
    ).split("\n")
    debian = {
        (uri.rstrip("/"), release)
        for origin, uri, release in (t.split("|") for t in targets if t)
        if origin == "Debian"
    }
    mine = [s for s in found if (re.findall(r"(?m)^URIs: (.*?)/*$", s)[0], suite) in debian]
    if not mine:
        raise Failed("no source index of Debian could be read", 3)
    sources.write_text("\n".join(mine), encoding="utf-8")

    shown = work.output(["apt-cache", "-c", configuration, "showsrc", "--only-source", package])
    versions = "\n".join(re.findall(r"(?m)^Version: (\S+)", shown))
    newest = subprocess.run(["sort", "-Vru"], input=versions, capture_output=True, text=True, check=True).stdout.split()
    for old in source.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    for version in newest:  # a mirror may list a security update whose files it does not have
        command = ["apt-get", "-c", configuration, "source", f"{package}={version}"]
        if not work.run(command, log="source", append=True, cwd=source, accept=range(256)):
            return
    raise Failed(f"cannot fetch the source of {package}; the whole log: {work.log('source')}", 3)


def unpacked(work: Steps, package: str) -> Path:
    """Return where the source of *package* was unpacked; raises Failed."""
    found = sorted(path.parent.parent for path in (work.build / "source").glob(f"{package}-*/debian/changelog"))
    if len(found) != 1:
        raise Failed(f"{len(found)} sources of {package} in {work.build / 'source'}; begin again with --clean")
    return found[0]
