"""What configure scripts find out, plain and through hugealign: ``python -m tests.configure [--place DIR] [NAME ...]``.

Each project is a Debian source package, configured three times: with gcc, with ``CC="hugealign gcc"`` and with
``CC=hugealign-gcc``.  What it printed, the answers in config.log and the headers that it wrote have to be the same but
for the compiler's name.  Status 1 if a project differs; the differences are printed.  What is there already is not
fetched or configured again.  It takes a network, and half an hour for all of them.
"""

import argparse
import difflib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support import ROOT, environment

#: Debian's source package: the command that configures it, in a directory of its own.
PROJECTS = {
    "bash": "../configure",
    "coreutils": "../configure",
    "curl": "../configure --with-openssl --without-libpsl",
    "ffmpeg": "../configure --disable-x86asm",
    "gawk": "../configure",
    "gmp": "../configure",
    "nginx": "cp -a ../auto ../configure ../conf ../src ../man ../html . && ./configure --without-http_rewrite_module",
    "php8.2": "../configure --disable-all",
    "postgresql-15": "../configure --without-readline --without-icu",
    "python3.11": "../configure",
    "ruby3.1": "../configure --disable-install-doc",
    "sqlite3": "../configure --disable-tcl",
    "vim": "cp -a ../src ../runtime ../configure ../Makefile . && ./configure --with-features=normal --enable-gui=no",
}
WAYS = {
    "plain": ("gcc", "g++"),
    "two-words": ("hugealign gcc", "hugealign g++"),
    "one-word": ("hugealign-gcc", "hugealign-g++"),
}
#: What differs from run to run, or names the compiler, its shims or the directory.
_LEVEL = (
    (r"'hugealign (gcc|g\+\+)'", r"\1"),
    (r"hugealign[ -](?=gcc|g\+\+)", ""),
    (r"\b(plain|two-words|one-word)\b", "WAY"),
    (r"-B\S+/libexec/? ?", ""),
    (r"(conftest|/tmp/cc|lt-|conf|autoconf|test)[\w.]*\d[\w.]*", "TEMPORARY"),
    (r"checking whether (gcc|g\+\+) is gcc\.\.\. yes\n", ""),  # gmp asks it of compilers whose name does not say so
    (r"autobuild timestamp\.\.\. .*|\b\d{2}:\d{2}:\d{2}\b.*|uptime.*|PATH: .*|on \w{3} \w{3} +\d.*", "TIME"),
)


def sources(place: Path, names: list[str], release: str = "") -> None:
    """Fetch and unpack the source packages *names* below *place*, with the machine's own lists of sources.

    With *release*, the packages are that release's.
    """
    lists = place / "apt"
    (lists / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    files = [path.read_text() for path in sorted(Path("/etc/apt/sources.list.d").glob("*.sources"))]
    # Sources of security updates go as soon as there are newer ones.
    stanzas = [stanza for text in files for stanza in text.split("\n\n") if stanza and "security" not in stanza]
    stanzas = [re.sub(r"(?m)^Types:.*$", "Types: deb-src", stanza) for stanza in stanzas]
    lines = Path("/etc/apt/sources.list").read_text() if Path("/etc/apt/sources.list").exists() else ""
    if release:
        stanzas = [re.sub(r"(?m)^Suites:.*$", f"Suites: {release}", stanza) for stanza in stanzas]
        lines = re.sub(r"(?m)^(deb(?:-src)? (?:\[.*?\] )?\S+) \S+", rf"\1 {release}", lines)
    (lists / "all.sources").write_text("\n\n".join(stanzas))
    (lists / "sources.list").write_text(re.sub(r"(?m)^deb ", "deb-src ", lines))
    options = [f"-oDir::Etc::SourceParts={lists}", f"-oDir::Etc::SourceList={lists}/sources.list"]
    options += [f"-oDir::State::Lists={lists}/lists"]
    wanted = [name for name in names if not (place / name / "unpacked").exists()]
    if wanted:
        subprocess.run(["apt-get", *options, "-qq", "update"], check=True)
    for name in wanted:
        shutil.rmtree(place / name, ignore_errors=True)
        (place / name).mkdir()
        command = ["apt-get", *options, "-qq", "source", "--only-source", "--download-only", name]
        if subprocess.run(command, cwd=place / name, stderr=subprocess.DEVNULL, check=False).returncode:
            print(f"{name}: not tried: its source cannot be fetched", flush=True)
            continue
        (description,) = (place / name).glob("*.dsc")
        words = ["dpkg-source", "--no-check", "--skip-patches", "-x", description.name, "tree"]
        subprocess.run(words, cwd=place / name, check=True, stdout=subprocess.DEVNULL)
        (place / name / "unpacked").touch()


def configured(tree: Path, way: str, command: str) -> dict[str, list[str]]:
    """Return what configuring *tree* in one of WAYS printed, answered and wrote: levelled lines by name."""
    place = tree / way
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    cc, cxx = WAYS[way]
    env = environment(CC=cc, CXX=cxx) | {"FORCE_UNSAFE_CONFIGURE": "1", "TZ": "UTC"}
    if command.startswith("../configure") and "disable-x86asm" in command:
        command += f' --cc="{cc}" --cxx="{cxx}"'  # ffmpeg's own
    if "without-http_rewrite_module" in command:
        command += f' --with-cc="{cc}"'
    done = subprocess.run(
        ["sh", "-c", command], cwd=place, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    result = {"status": [str(done.returncode)], "stdout": _level(done.stdout), "stderr": _level(done.stderr)}
    for log in place.rglob("config.log"):
        _, _, answers = log.read_text(errors="replace").partition("## Cache variables. ##")
        result[f"{log.relative_to(place)}: answers"] = _level(answers.partition("## Output variables. ##")[0])
    for header in [*place.rglob("*config*.h"), *place.rglob("ngx_auto_*.h"), *place.rglob("config.mak")]:
        if "tests" not in header.parts:
            result[str(header.relative_to(place))] = _level(header.read_text(errors="replace"))
    return result


def _level(text: str) -> list[str]:
    for pattern, other in _LEVEL:
        text = re.sub(pattern, other, text)
    return text.splitlines()


def differences(plain: dict[str, list[str]], other: dict[str, list[str]]) -> Iterator[str]:
    """Yield what is different, as a diff."""
    for name in sorted({*plain, *other}):
        yield from difflib.unified_diff(plain.get(name, []), other.get(name, []), f"plain {name}", name, "", "", 0, "")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--place", type=Path, default=ROOT / "build" / "configure")
    parser.add_argument("names", nargs="*", default=list(PROJECTS))
    args = parser.parse_args()
    args.place.mkdir(parents=True, exist_ok=True)
    sources(args.place, args.names)
    status = 0
    for name in [name for name in args.names if (args.place / name / "unpacked").exists()]:
        tree = args.place / name / "tree"
        result = {way: configured(tree, way, PROJECTS[name]) for way in WAYS}
        answers = sum(len(lines) for key, lines in result["plain"].items() if "answers" in key)
        for way in ("two-words", "one-word"):
            lines = list(differences(result["plain"], result[way]))
            output = "the same" if not lines else f"{len(lines)} lines of differences"
            print(f"{name}, {way}: status {result[way]['status'][0]}, {answers} answers: {output}", flush=True)
            print("\n".join(f"    {line}" for line in lines[:40]), end="\n" * bool(lines), flush=True)
            status |= bool(lines)
    return status


if __name__ == "__main__":
    sys.exit(main())
