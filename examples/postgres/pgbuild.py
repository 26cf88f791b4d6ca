"""The builds: where they are, how each is made, what is promised of it."""

import contextlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from pgserver import Server, running
from steps import ANY, Steps

BUILT = ("plain", "hugealign", "ordered", "leading")
STALE = ("older", "major")
# Whose versions decide which blocks run: what the server is made by, what is in its process, and what traces it.
COUNTING_PACKAGES = ("gcc-12", "binutils", "bison", "flex", "perl", "libc6", "zlib1g", "libreadline8", "qemu-user")
JOBS = os.cpu_count() or 1
# What of the source tree a server takes to run, in order.
_SERVER = (
    "interfaces/libpq", "backend", "backend/utils/mb/conversion_procs", "backend/snowball", "timezone",
    "pl/plpgsql/src", "bin/initdb", "bin/pg_ctl",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Example:
    """The example's directories and choices."""

    steps: Steps
    check: bool
    stale: bool

    @property
    def build(self) -> Path:
        """Where everything is."""
        return self.steps.build

    def source(self, name: str) -> Path:
        """Return a source tree: current, older or major."""
        return self.build / "source" / name

    def prefix(self, variant: str) -> Path:
        """Return where a variant is installed; Debian's PostgreSQL wants "postgres" in it."""
        return self.build / "install" / f"postgres-{variant}"

    def program(self, variant: str, name: str = "postgres") -> Path:
        """Return a program of a variant."""
        return self.prefix(variant) / "bin" / name

    def order(self, name: str) -> Path:
        """Return an order file."""
        return self.build / "orders" / f"{name}.order"

    def versions(self) -> dict[str, str]:
        """Return the versions of the source trees that there are."""
        found = {}
        for name in ("current", *STALE):
            if (self.source(name) / "debian").is_dir() and (name == "current" or self.stale):
                words = ["dpkg-parsechangelog", "-l", self.source(name) / "debian" / "changelog", "-S", "Version"]
                found[name] = self.steps.output(words).strip()
        return found


def configure(example: Example, variant: str, source: str, compiler: str) -> Path:
    """Configure *variant* from the tree *source* with ``CC=compiler``, the one difference between two variants."""
    tree = example.steps.directory("trees", variant)
    command = [example.source(source) / "configure", f"--prefix={example.prefix(variant)}", f"CC={compiler}"]
    example.steps.once(
        f"{variant}-configure", f'{variant}: ./configure CC="{shown(example, compiler)}"', command, cwd=tree
    )
    return tree


def build_all(example: Example, variant: str, compiler: str) -> None:
    """Build and install all of today's PostgreSQL."""
    tree = configure(example, variant, "current", compiler)
    example.steps.once(f"{variant}-make", f"{variant}: make -j{JOBS}", ["make", "-s", f"-j{JOBS}"], cwd=tree)
    example.steps.once(f"{variant}-install", f"{variant}: make install", ["make", "-s", "install"], cwd=tree)
    quiet(example, variant)


def build_server(example: Example, variant: str) -> None:
    """Build and install of an older version what a server takes, with gcc."""
    tree = configure(example, variant, variant, "gcc")
    make = [["make", "-s", f"-j{JOBS}", "-C", tree / "src" / part] for part in _SERVER]
    example.steps.once(f"{variant}-make", f"{variant}: make -j{JOBS}, the server's parts", *make)
    install = [["make", "-s", "-C", tree / "src" / part, "install"] for part in _SERVER]
    example.steps.once(f"{variant}-install", f"{variant}: make install", *install)


def build_ordered(example: Example) -> None:
    """Build ``ordered``, then link its objects again with the other order, which gives ``leading``.

    The server alone is built again; all else is that of ``hugealign``.
    """
    orders = {variant: f"hugealign --profile={example.order(variant)} gcc" for variant in ("ordered", "leading")}
    backend = configure(example, "ordered", "current", orders["ordered"]) / "src" / "backend"
    for variant, compiler in orders.items():
        example.steps.once(
            f"{variant}-make",
            f'{variant}: make -j{JOBS} -C src/backend CC="{shown(example, compiler)}"',
            ["rm", "-rf", backend / "postgres", example.prefix(variant)],
            # Only a make of everything waits for the headers that are generated.
            ["make", "-s", "-C", backend, "generated-headers"],
            ["make", "-s", f"-j{JOBS}", "-C", backend, f"CC={compiler}"],
            ["cp", "-a", example.prefix("hugealign"), example.prefix(variant)],
            ["cp", backend / "postgres", example.program(variant)],
        )
        quiet(example, variant)


def quiet(example: Example, variant: str) -> None:
    """Promise that the wrapper had nothing to say."""
    for log in (example.steps.log(f"{variant}-{name}") for name in ("configure", "make")):
        text = log.read_text(errors="replace") if log.exists() else ""
        said = [line for line in text.splitlines() if "hugealign: " in line]
        example.steps.promise(not said, f"{variant}: the wrapper printed something: {said[:1]} (log: {log})")


def shown(example: Example, words: str) -> str:
    """Return *words* without the place of the build directory."""
    return words.replace(f"{example.build}/", "")


def same_settings(example: Example) -> None:
    """Promise that configure found the same with the wrapper, but for the compiler's words and directories' names."""
    for name in ("config.status", "src/include/pg_config.h", "src/Makefile.global"):
        found = []
        for variant in ("plain", "hugealign"):
            text = (example.build / "trees" / variant / name).read_text(errors="replace")
            text = text.replace("hugealign gcc", "gcc").replace(str(example.build / "trees" / variant), "BUILD")
            found.append(text.replace(str(example.prefix(variant)), "PREFIX"))
        example.steps.promise(found[0] == found[1], f"configure found something else with the wrapper: {name}")


def regression_suite(example: Example, server: Server) -> None:
    """Run PostgreSQL's own regression suite against *server*, unless that was done."""
    steps, name = example.steps, f"{server.name}-check"
    if example.check:
        tests = example.build / "trees" / "hugealign" / "src" / "test" / "regress"
        where = [f"PGHOST={server.socket}", "PGUSER=postgres"]
        with contextlib.nullcontext() if steps.done(name) is not None else running(server):
            steps.once(
                name,
                f"{server.name}: make installcheck-parallel",
                ["env", *where, "make", "-s", "-C", tests, "installcheck-parallel"],
            )
        said = re.findall(r"All \d+ tests passed", steps.log(name).read_text(errors="replace"))
        steps.promise(bool(said), f"{server.name}: not all tests passed (log: {steps.log(name)})")


def verify(example: Example, variant: str) -> None:
    """Promise that ``hugealign verify`` finds nothing in the server and in every installed library."""
    libraries = sorted(path for path in (example.prefix(variant) / "lib").rglob("*.so*") if not path.is_symlink())
    files = [example.program(variant), *libraries]
    status = example.steps.run(["hugealign", "verify", *files], log=f"{variant}-verify", accept=ANY)
    example.steps.promise(status == 0, f"hugealign verify {variant} (log: {example.steps.log(f'{variant}-verify')})")
    example.steps.say(f"{variant}: hugealign verify, postgres and {len(libraries)} libraries: status {status}")


def coverage(example: Example, variant: str) -> tuple[int, int, int]:
    """Return the bytes of text in whole windows of the file, the bytes of text, and the number of those windows."""
    words = ["hugealign", "verify", "--format", "json", example.program(variant)]
    found = json.loads(example.steps.output(words, accept=(0, 1)))["files"][0]["coverage"]
    return int(found["huge_bytes"]), int(found["text_bytes"]), int(found["windows"])


def warm(example: Example, variant: str) -> None:
    """Promise that ``hugealign warm`` brings the server's text into huge folios."""
    status = example.steps.run(["hugealign", "warm", example.program(variant)], log=f"{variant}-warm", accept=ANY)
    said = example.steps.log(f"{variant}-warm").read_text(errors="replace").strip()
    example.steps.promise(status == 0, f"hugealign warm {variant}: {said}")


def huge_windows(example: Example, variant: str) -> int:
    """Return how many windows are meant to be huge: all of the text, or what the order says."""
    if variant in {"ordered", "leading"}:
        report = json.loads((example.build / "results" / f"{variant}-order.json").read_text())
        return int(report["huge"])
    return coverage(example, variant)[2]
