"""Keep the samples in the documents true: run the commands in their ``console`` blocks and write down what they print.

    python -m tests.samples docs/reference/verify.md          # run by `make docs`
    python -m tests.samples --check docs/reference/verify.md  # status 1, and the difference, if they print another

In such a block a line that begins with ``$ `` is a command for bash, run in a scratch directory with the files that
`prepare` links; what follows is what it prints, on both streams.  ``$?`` is the status of the command before.
"""

import difflib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.link.bulk import MAIN, bulk_object
from tests.support import HUGEALIGN, environment, run

_BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)
_VERSIONS = re.compile(r"(?<=^<!-- samples: ).*(?= -->$)", re.MULTILINE)
#: What another compiler, linker or Python may make different: numbers, hashes, the width of columns, and where lines
#: end; argparse of Python 3.13 names an option's argument once.
_VARIES = (
    (r"[0-9a-f]{16,}", "HASH"),
    (r"0x[0-9a-f]+", "ADDRESS"),
    (r"\d+(\.\d+)?( (KiB|MiB))?", "N"),
    (r"(?m)^(  -\w) (\S+), (--[a-z-]+ \2)(?=\s)", r"\1, \3"),
)


def prepare(directory: Path) -> None:
    """Make the files that the samples are about: ``server`` laid out, ``old/server`` not, a small tool, a package."""
    bulk = bulk_object(directory)
    (directory / "main.c").write_text(MAIN)
    (directory / "old").mkdir()
    words = ["main.c", bulk.name, "-o"]
    run(HUGEALIGN, "gcc", *words, "server", cwd=directory, check=True)
    run("gcc", *words, "old/server", cwd=directory, check=True)
    (directory / "tool.c").write_text("int main(void) { return 0; }\n")
    run("gcc", "tool.c", "-o", "tool", cwd=directory, check=True)
    for name in ("tool.c", "main.c", bulk.name, bulk.with_suffix(".s").name):
        (directory / name).unlink()
    run("tar", "cf", "package.tar", "server", "old/server", "tool", cwd=directory, check=True)


def versions() -> str:
    """Return which compiler, linker and Python the samples are made with."""
    python = ("python3", "-c", "import sys; print('Python %d.%d' % sys.version_info[:2])")
    tools = (("gcc", "--version"), ("ld", "-v"), python)
    return "; ".join(run(*words, check=True).stdout.splitlines()[0] for words in tools)


def renewed(text: str, directory: Path) -> str:
    """Return the document *text* with its samples as they are printed now, in *directory*."""
    text = _BLOCK.sub(lambda block: "".join(_session(block[0], directory)), text)
    return _VERSIONS.sub(lambda _: versions(), text)


def _session(block: str, directory: Path) -> Iterator[str]:
    status = 0
    for line in block.splitlines():
        if not line.startswith("$ "):
            continue
        done = subprocess.run(
            ["bash", "-c", f"(exit {status}); {line[2:]}"],
            cwd=directory,
            env=environment(COLUMNS="80"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        status = done.returncode
        yield f"{line}\n{done.stdout}"


def comparable(text: str, exact: bool) -> list[str]:
    """Return the lines of *text*; unless *exact*, its words, without what varies from compiler to compiler."""
    if exact:
        return text.splitlines(keepends=True)
    text = _VERSIONS.sub("", text)
    for pattern, word in _VARIES:
        text = re.sub(pattern, word, text)
    return [f"{word}\n" for word in text.split()]


def difference(path: Path, directory: Path) -> str:
    """Return how the document at *path* differs from what its commands print now; empty if it does not."""
    before = path.read_text()
    made_with = _VERSIONS.search(before)
    exact = made_with is not None and made_with[0] == versions()
    then, now = (comparable(text, exact) for text in (before, renewed(before, directory)))
    return "".join(difflib.unified_diff(then, now, str(path), "now"))


def main(words: list[str]) -> int:
    """Renew or check the documents named in *words*."""
    check = words[:1] == ["--check"]
    with tempfile.TemporaryDirectory(prefix="samples-") as name:
        directory = Path(name)
        prepare(directory)
        changes = ""
        for path in map(Path, words[check:]):
            if check:
                changes += difference(path, directory)
            else:
                path.write_text(renewed(path.read_text(), directory))
    print(changes, end="")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
