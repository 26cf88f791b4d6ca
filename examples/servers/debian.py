"""Debian's packages and Debian's sources, without touching the system's own apt configuration."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from examples.servers.steps import ANY, Failed, Steps

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


@dataclass(frozen=True, slots=True)
class Source:
    """A version of *package* to be unpacked as ``source/NAME``, without *name* as the package calls it.

    It is the newest, or the oldest, that is not another's already.
    """

    package: str
    name: str = ""
    newest: bool = True
    needed: bool = True


def this_release() -> None:
    """Raise Failed on another system than the one that the examples are for."""
    path = Path("/etc/os-release")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    words = dict(re.findall(r'(?m)^(\w+)="?([^"\n]*)"?$', text))
    if (words.get("ID"), words.get("VERSION_CODENAME")) != ("debian", "bookworm"):
        raise Failed(f"this example is for Debian 12 (bookworm); this machine says {words.get('PRETTY_NAME')}", 3)


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of those *packages* that are installed."""
    form = "${db:Status-Abbrev}${Package} ${Version}\n"
    query = ["dpkg-query", "-W", "-f", form, *packages]
    output = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    words = (line.split() for line in output.splitlines())
    return {word[1]: word[2] for word in words if word[0] == "ii"}


def install(steps: Steps, packages: Sequence[str]) -> None:
    """Install what is missing of *packages*, as root; raises Failed."""
    missing = [name for name in packages if name not in versions(packages)]
    if not missing:
        return
    root = [] if os.geteuid() == 0 else ["sudo"]
    if root and not shutil.which("sudo"):
        raise Failed(f"needs root for: apt-get install {' '.join(missing)}", 3)
    steps.say(f"installing {' '.join(missing)} …")
    apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300"]
    with steps.log("packages").open("w") as log:
        for _ in range(3):  # another apt may hold the lock on the lists for a moment
            for words in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
                done = subprocess.run([*apt, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
            if not done.returncode:
                return
            time.sleep(10)
    raise Failed(f"cannot install {' '.join(missing)}: see {steps.log('packages')}", 3)


def stanzas(path: str, text: str, suites: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str, str]]:
    """Yield URI, suite and a ``deb-src`` stanza of the deb822 form for each entry for main in apt's file *path*.

    An entry for a key of *suites* stands for the suites that belong to the key.
    """
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for uri, fields in _deb822(text) if path.endswith(".sources") else _one_line(text):
        if uri.startswith("cdrom:") or "main" not in fields.get("components", "").split():
            continue
        extra = "".join(f"{name}: {fields[name.lower()]}\n" for name in _FIELDS if name.lower() in fields)
        for listed in fields.get("suites", "").split():
            for suite in suites.get(listed, ()):
                yield uri, suite, f"Types: deb-src\nURIs: {uri}\nSuites: {suite}\nComponents: main\n{extra}"


def _deb822(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    for stanza in re.split(r"\n(?:[ \t]*\n)+", text):
        result = re.findall(r"(?m)^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t].*)*)", stanza)
        fields = {name.lower(): value for name, value in result}
        if fields.get("enabled", "yes").strip().lower() not in {"no", "false", "without", "off", "disable", "0"}:
            for uri in fields.get("uris", "").split():
                yield uri, fields


def _one_line(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    form = r"(?m)^\s*deb(?:-src)?\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s+(.*)"
    for options, uri, suite, components in re.findall(form, text):
        named = {name.lower(): value for name, value in re.findall(r"([^=\s]+?)[+-]?=(\S*)", options)}
        yield uri, {"suites": suite, "components": components, **named}


def fetch(steps: Steps, sources: Sequence[Source], suites: Mapping[str, Sequence[str]]) -> None:
    """Unpack *sources* below ``source``; raises Failed."""
    apt = _lists(steps, suites)
    taken = set()
    for wanted in sources:
        shown = steps.output(["apt-cache", *apt, "showsrc", "--only-source", wanted.package], accept=ANY)
        result = "\n".join(re.findall(r"(?m)^Version: (\S+)", shown))
        order = ["sort", "-Vu", *(["-r"] if wanted.newest else [])]
        for version in subprocess.run(order, input=result, capture_output=True, text=True, check=True).stdout.split():
            place, exact = steps.directory("source") / "unpacked", f"{wanted.package}={version}"
            steps.output(["rm", "-rf", place])
            steps.directory("source", "unpacked")
            # A mirror may list a version whose files it does not have.
            command = ["apt-get", *apt, "source", exact]
            if exact in taken or steps.run(command, log="source", append=True, cwd=place, accept=ANY):
                continue
            (tree,) = (path for path in place.iterdir() if path.is_dir())
            target = place.parent / (wanted.name or tree.name)
            steps.output(["rm", "-rf", target])
            steps.output(["mv", tree, target])
            steps.output(["rm", "-rf", place])
            taken.add(exact)
            break
        else:
            if wanted.needed:
                raise Failed(f"cannot fetch the source of {wanted.package}; the whole log: {steps.log('source')}", 3)


def _lists(steps: Steps, suites: Mapping[str, Sequence[str]]) -> list[object]:
    """Get the lists of Debian's sources; return apt's words that use them."""
    apt = steps.directory("apt")
    for names in (("cache",), ("lists",), ("lists", "partial")):
        steps.directory("apt", *names)
    shell = steps.output(["apt-config", "shell", "list", "Dir::Etc::sourcelist/f", "parts", "Dir::Etc::sourceparts/d"])
    places = {name: Path(value) for name, value in re.findall(r"(?m)^(\w+)='(.*)'$", shell)}
    files = [places["list"], *sorted(places["parts"].glob("*.list")), *sorted(places["parts"].glob("*.sources"))]
    result = {
        (uri, suite): stanza
        for path in files
        if path.is_file()
        for uri, suite, stanza in stanzas(path.name, path.read_text(encoding="utf-8", errors="replace"), suites)
    }
    if not result:
        raise Failed(f"no entry for Debian's {', '.join(suites)} main in {', '.join(map(str, files))}", 3)
    words: list[object] = ["-c", apt / "apt.conf"]
    (apt / "apt.conf").write_text(_CONFIGURATION.format(apt=apt), encoding="utf-8")
    (apt / "debian.sources").write_text("\n".join(result.values()), encoding="utf-8")
    steps.run(["apt-get", *words, "update"], log="source")
    # A vendor's archive may use the same suite names: only what the signed release file calls Debian stays.
    form = "$(ORIGIN)|$(REPO_URI)|$(RELEASE)"
    output = steps.output(["apt-get", *words, "indextargets", "--format", form, "Created-By: Sources"])
    debian = {line.replace("/|", "|") for line in output.splitlines()}
    mine = [stanza for (uri, suite), stanza in result.items() if f"Debian|{uri.rstrip('/')}|{suite}" in debian]
    if not mine:
        raise Failed("no source index of Debian could be read", 3)
    (apt / "debian.sources").write_text("\n".join(mine), encoding="utf-8")
    return words
