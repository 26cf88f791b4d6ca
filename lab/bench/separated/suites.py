"""The test suites of suites.toml, in a fresh Debian 12 as root: with Debian's file, and with the same when fixed."""

import re
import shutil
import subprocess
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.debian import entering, unpacked
from tests.support import ROOT

_SOURCES = "/root/src"
_HUGEALIGN = "/opt/hugealign"
_SECONDS = 1200  # of one run
#: The upstream sources of a package: what Debian's archive still has of them, and no patches.
_UNPACK = r"""
cd {src}; [ ! -d {name} ] || exit 0
apt-get source -qq --tar-only {name} || apt-get source -qq --tar-only {name}/bookworm
tar=$(ls -d {name}_*.orig.tar.*z* | grep -v 'asc$' | tail -1)
mkdir {name} && tar -xf "$tar" -C {name} --strip-components=1
"""


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite; suites.toml says what the fields mean.  *tree* is a directory that the caller has."""

    name: str
    file: str
    packages: str
    what: str
    run: str
    pattern: str
    source: str = ""
    tree: str = ""
    prepare: str = ":"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a *suite*: how many lines there were with Debian's file, and which *differ* with the other.

    *failed* says why there are none.
    """

    suite: Suite
    count: int = 0
    differ: tuple[str, ...] = ()
    failed: str = ""


def all_suites() -> list[Suite]:
    """Return what suites.toml has."""
    with Path(__file__).with_name("suites.toml").open("rb") as stream:
        return [Suite(**fields) for fields in tomllib.load(stream)["suite"]]


def prepared(place: Path) -> Path:
    """Return the fresh Debian at *place*, with hugealign in it."""
    root = place / "debian"
    if not (root / _SOURCES[1:]).exists():
        unpacked("bookworm", root)
        sources = root / "etc/apt/sources.list"
        lines = sources.read_text().splitlines()
        sources.write_text(
            "\n".join(lines + [f"deb-src {line[4:]}" for line in lines if line.startswith("deb ")]) + "\n"
        )
        (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
        (root / "usr/sbin/policy-rc.d").chmod(0o755)
        _entered(root, f"apt-get update -qq; mkdir -p {_SOURCES}; apt-get install -qq dpkg-dev procps")
    shutil.rmtree(root / _HUGEALIGN[1:], ignore_errors=True)
    for name in ("bin", "hugealign"):
        shutil.copytree(ROOT / name, root / _HUGEALIGN[1:] / name, symlinks=True)
    return root


def tried(suite: Suite, root: Path, trees: dict[str, Path]) -> Outcome:
    """Run *suite* in the Debian at *root* with the file as it is, and separated."""
    fill = {"src": _SOURCES}
    try:
        _entered(root, f"apt-get install -qq --no-install-recommends {suite.packages} >/dev/null")
        if suite.source:
            _entered(root, _UNPACK.replace("{src}", _SOURCES).replace("{name}", suite.source))
        if suite.tree:
            if suite.tree not in trees:
                return Outcome(suite, failed=f"--tree {suite.tree}=DIRECTORY was not given")
            shutil.copytree(trees[suite.tree], root / _SOURCES[1:] / suite.tree, dirs_exist_ok=True)
        _entered(root, _filled(suite.prepare, fill))
        # `fix` refuses a file with another name, which would stay as it is.
        alone = f"cp -a {suite.file} {suite.file}.alone && mv {suite.file}.alone {suite.file}"
        _entered(root, f"[ $(stat -c %h {suite.file}) = 1 ] || {{ {alone}; }}")
        before = _results(root, suite, fill)
        _entered(root, f"{_HUGEALIGN}/bin/hugealign fix --in-place {suite.file}")
        try:
            after = _results(root, suite, fill)
        finally:
            _entered(root, f"{_HUGEALIGN}/bin/hugealign fix --undo {suite.file}")
    except subprocess.CalledProcessError as error:
        return Outcome(suite, failed=error.stderr.decode(errors="replace").strip()[-300:])
    except subprocess.TimeoutExpired:
        return Outcome(suite, failed=f"it takes more than {_SECONDS} s")
    if not before:
        return Outcome(suite, failed="it printed no results")
    differ = sorted(
        [f"- {line}" for line in (before - after).elements()] + [f"+ {line}" for line in (after - before).elements()]
    )
    return Outcome(suite, before.total(), tuple(differ))


def _filled(script: str, fill: dict[str, str]) -> str:
    for name, value in fill.items():
        script = script.replace(f"{{{name}}}", value)
    return script


def _entered(root: Path, script: str, *, check: bool = True) -> bytes:
    words = entering(root, script, interpreter="bash")
    return subprocess.run(words, capture_output=True, check=check, timeout=_SECONDS).stdout


def _results(root: Path, suite: Suite, fill: dict[str, str]) -> Counter[str]:
    output = _entered(root, f"({_filled(suite.run, fill)}) 2>&1 || :", check=False).decode(errors="replace")
    (root / "root" / f"{suite.name}.log").write_text(output)
    matches = re.finditer(suite.pattern, output, re.MULTILINE)
    return Counter((" ".join(match.groups()) or match[0]).strip() for match in matches)
