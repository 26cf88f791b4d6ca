"""Debian's source packages, for the programs that are compiled here."""

import re
import shutil
import subprocess
from pathlib import Path


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
