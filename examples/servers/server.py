"""What a server has of its own, as its server.toml says it; and a server at work."""

import contextlib
import importlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from examples.servers.debian import Source
from examples.servers.steps import ANY, ROOT, Failed, Steps
from examples.servers.text import Text, mapped
from hugealign import orderfile
from lab.bench import placements
from lab.bench.placements import PLACEMENTS

#: plain: by the compiler alone.  hugealign: with hugealign.  ordered, leading: in orders that a profile of hugealign
#: gave, the second for a processor with two entries, of which one is left to others.
VARIANTS = ("plain", "hugealign", "ordered", "leading")
_PATIENCE = 120  # seconds until a server answers, or ends


@dataclass(frozen=True, slots=True)
class Server:
    """A server.  Commands are templates: {} is filled in by `Example.words`, ``<FILE`` is input.

    A command ``@NAME`` is a function of the server's job.py.  Of regular expressions the first group counts.
    """

    beside: Path  # where server.toml is, and what is with it
    name: str  # of its directories
    title: str
    command: str  # that starts the example
    packages: str  # of Debian, that the build and the servers take
    counting: str  # whose versions decide which blocks run
    rounds: int  # how often the loads run on each server, and for how many
    seconds: int
    ending: str  # the signal that ends it
    stacks: str  # perf's words for the profile
    trained: str  # what is recorded for the orders, in words
    built: str  # how, in words for the report
    suites: Mapping[str, Sequence[str]]  # where its sources are, by where packages are
    sources: Sequence[Mapping[str, Any]]  # debian.Source; the first is built
    others: Sequence[str]  # where all else is that hugealign linked
    orders: Mapping[str, str]  # words of `hugealign order`, by variant
    places: Mapping[str, str]  # further names for templates
    builds: Sequence[Mapping[str, Any]]  # *steps* in *directory* for each of *variants*, by compiler
    links: Sequence[Mapping[str, Any]]  # the same, when there are orders
    placed: Mapping[str, Any]  # the *steps* that link {object} in front of each of *variants*, by compiler, to {place}
    promises: Mapping[str, str]  # commands that are to succeed after the builds
    test: Mapping[str, Any]  # its own tests
    serve: Mapping[str, Any]  # how it is created, filled, started, queried; what its loads print
    loads: Mapping[str, str]  # that are judged
    trace: Mapping[str, Any]  # the *job*, *cpus* with up to *windows* huge ones; *begin* and *end* of what counts


def read(name: str) -> Server:
    """Return the server of that name."""
    path = ROOT / "examples" / name
    return Server(beside=path, **tomllib.loads((path / "server.toml").read_text(encoding="utf-8")))


@dataclass(frozen=True, slots=True)
class Example:
    """A run of an example; *check*: with the server's own tests, *stale*: with profiles of older versions."""

    server: Server
    steps: Steps
    rounds: int
    seconds: int
    check: bool = True
    stale: bool = True

    @property
    def sources(self) -> list[Source]:
        """The sources that are wanted."""
        return [Source(**words) for words in self.server.sources][: None if self.stale else 1]

    @property
    def current(self) -> str:
        """The name of the source tree that is built."""
        first = self.sources[0]
        result = [path.parts[-3] for path in (self.steps.build / "source").glob(f"{first.package}-*/debian/changelog")]
        if not first.name and len(result) != 1:
            raise Failed(f"{len(result)} sources of {first.package}; begin again with --clean")
        return first.name or result[0]

    @property
    def older(self) -> tuple[str, ...]:
        """Which sources there are that only give profiles."""
        names = (source.name for source in self.sources[1:])
        return tuple(name for name in names if (self.steps.build / "source" / name / "debian").is_dir())

    def version(self, name: str = "") -> str:
        """Return the version of a source tree, of the one that is built if *name* is empty, by Debian's changelog."""
        path = self.steps.build / "source" / (name or self.current) / "debian" / "changelog"
        match = re.search(r"\((.*?)\)", path.read_text(encoding="utf-8", errors="replace"))
        return match[1] if match else "unknown"

    # ---- commands ----------------------------------------------------------------------------------------------------

    def words(self, template: str, **more: object) -> list[str]:
        """Return the command that *template* means; *more* are names beside those that each command may use."""
        build, tool = self.steps.build, Path(shutil.which("hugealign") or ROOT / "bin" / "hugealign").parents[1]
        names = {**self.server.places, "build": build, "source": build / "source", "tool": tool}
        names |= {"current": self.current, "order": self.order(str(more.get("variant"))), "jobs": os.cpu_count()}
        names |= {"seconds": self.seconds, "training": 4 * self.seconds, **more}
        while "{" in template:  # places are also templates
            template = template.format_map(names)
        return shlex.split(template)

    def do(self, templates: Sequence[str], log: str, cwd: Path | None = None, **more: object) -> None:
        """Run commands one after another, their output to one log; raises Failed."""
        for number, template in enumerate(templates):
            if template.startswith("@"):
                getattr(importlib.import_module(f"examples.{self.server.name}.job"), template[1:])(self)
                continue
            words = self.words(template, **more)
            stdin = Path(words.pop()[1:] if words[-1].startswith("<") else os.devnull)
            self.steps.run(words, log=log, append=number > 0, cwd=cwd, stdin=stdin)

    def order(self, variant: str) -> Path:
        """Return an order file."""
        return self.steps.build / "orders" / f"{variant}.order"

    def program(self, variant: str) -> Path:
        """Return a server's file."""
        return Path(*self.words("{program}", variant=variant))

    def placed(self, variant: str, bytes_: int) -> Path:
        """Return the link of a server with that many bytes in front of its first function."""
        return self.steps.build / "placed" / f"{variant}.{bytes_}"

    # ---- builds and proofs -------------------------------------------------------------------------------------------

    def make(self, builds: Sequence[Mapping[str, Any]]) -> None:
        """Do *builds*, of older servers those that there are; promise that the wrapper had nothing to say."""
        for build, variant, compiler in ((result, *item) for result in builds for item in result["variants"].items()):
            if variant in {source.get("name") for source in self.server.sources[1:]} - {*self.older}:
                continue
            names = {"variant": variant, "compiler": shlex.join(self.words(compiler, variant=variant))}
            self.steps.directory(self.program(variant).relative_to(self.steps.build).parts[0])
            cwd = self.steps.directory(*build["directory"].format(**names).split("/"))
            for step, templates in build["steps"].items():
                log = f"{variant}-{step}"
                shown = self.steps.shown(f"{variant}: {step} {names['compiler']}".rstrip())
                self.steps.step(log, shown, partial(self.do, templates, log, cwd, **names))
                if step.startswith(("configure", "make")):
                    text = self.steps.log(log).read_text(errors="replace")
                    output = [line for line in text.splitlines() if "hugealign: " in line]
                    self.steps.promise(not output, f"the wrapper printed something: {output[:1]} (log: {log})")

    def place(self) -> None:
        """Link each server once for each of PLACEMENTS."""
        beside = self.steps.directory("placed")
        for variant, compiler in self.server.placed["variants"].items():
            order = self.order(variant)
            if order.exists():
                text = placements.padded(order.read_text(encoding="utf-8"))
                self.order(f"{variant}-placed").write_text(text, encoding="utf-8")
            tree = self.server.placed.get("trees", {}).get(variant, variant)
            for bytes_ in PLACEMENTS:
                pad = beside / f"pad{bytes_}.o"
                names: dict[str, Any] = {"variant": variant, "order": self.order(f"{variant}-placed"), "object": pad}
                names |= {"place": self.placed(variant, bytes_), "tree_of": tree}
                names["compiler"] = shlex.join(self.words(compiler, **names))
                make = partial(self._place, pad, bytes_, names)
                self.steps.step(f"{variant}-placed-{bytes_}", f"{variant}: linked behind {bytes_} bytes", make)

    def _place(self, pad: Path, bytes_: int, names: Mapping[str, Any]) -> None:
        source = pad.with_suffix(".s")
        if not source.exists():
            source.write_text(placements.source(bytes_), encoding="ascii")
        self.do([f"gcc -c {source} -o {pad}", *self.server.placed["steps"]], f"{names['variant']}-placed", **names)

    def verify(self, variant: str) -> dict[str, Any]:
        """Return what ``hugealign verify`` says of a server's coverage; promise that all but ``plain`` are clean."""
        words = ["hugealign", "verify", "--json", self.program(variant)]
        result = json.loads(self.steps.output(words, accept=(0, 1)))["files"][0]
        output = ", ".join(f"{wrong['code']} {wrong['message']}" for wrong in result["diagnoses"])
        self.steps.promise(variant == "plain" or result["verdict"] == "ok", f"hugealign verify: {variant}: {output}")
        return dict(result["coverage"])

    def wanted(self, variant: str) -> int:
        """Return how many windows are meant to be huge: all of the text, or what the order says."""
        if variant in self.server.orders:
            return int(orderfile.load(str(self.order(variant))).header["windows"])
        return int(self.verify(variant)["windows"]) if variant == "hugealign" else 0

    def verify_others(self) -> int:
        """Promise that all other programs and libraries that hugealign linked are clean; return how many there are."""
        places = [self.steps.build / place for place in self.server.others]
        files = sorted(path for place in places for path in place.rglob("*") if not path.is_symlink())
        others = [path for path in files if path.is_file() and os.access(path, os.X_OK) and _elf(path)]
        status = self.steps.run(["hugealign", "verify", *others], log="verify", accept=ANY)
        self.steps.promise(not status, f"hugealign verify is not clean (log: {self.steps.log('verify')})")
        return len(others)

    def test(self, variant: str, sockets: Path) -> dict[str, int]:
        """Run the server's own tests, unless that was done; promise that enough passed and none failed."""
        test, log = self.server.test, f"{variant}-check"

        def make() -> dict[str, int]:
            entry = Instance(self, variant, self.steps.directory("data") / "check", sockets / "check")
            created = self.server.serve["create"] if test["running"] else ["mkdir {data}"]
            self.do(["rm -rf {data}", *created], log, **entry.names)
            with running([entry] if test["running"] else []):
                status = self.steps.run(self.words(test["command"], **entry.names), log=log, accept=ANY)
            output = self.steps.log(log).read_text(errors="replace")
            return {"status": status, **{name: len(re.findall(test[name], output)) for name in ("passed", "failed")}}

        result: dict[str, int] = self.steps.step(log, f"{variant}: {self.server.title}'s own tests", make)
        good = result["status"] == result["failed"] == 0 and result["passed"] >= test["least"]
        self.steps.promise(good, f"{variant}: {self.server.title}'s own tests: {result} (log: {self.steps.log(log)})")
        return result


def _elf(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4) == b"\x7fELF"


# ---- at work ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Instance:
    """A *variant* of a server on its *data*, with its *socket*; *placement*: a new copy of one of PLACEMENTS."""

    example: Example
    variant: str
    data: Path
    socket: Path
    process: subprocess.Popen[bytes] | None = None
    placement: int | None = None

    @property
    def program(self) -> Path:
        """Its file."""
        path = self.example.program(self.variant)
        return path if self.placement is None else path.with_name(f"{path.name}.placed")

    @property
    def names(self) -> dict[str, Any]:
        """What templates may name of it."""
        names = {"variant": self.variant, "data": self.data, "socket": self.socket}
        return names if self.placement is None else {**names, "program": self.program}

    def words(self, template: str, **more: object) -> list[str]:
        """Return the command that *template* means for it."""
        return self.example.words(template, **self.names, **more)

    def bring(self) -> None:
        """Make its copy if it has a placement, and warm its text.

        Before each start: text that no process runs may have been evicted, and comes back small
        (docs/measured/staying-huge.md).
        """
        steps = self.example.steps
        if self.placement is not None:
            steps.output(["rm", "-f", self.program])
            steps.output(["cp", "--reflink=never", self.example.placed(self.variant, self.placement), self.program])
        if self.variant in VARIANTS[1:]:
            command = ["hugealign", "warm", self.program]
            status = steps.run(command, log=f"{self.variant}-warm", accept=ANY)
            output = steps.log(f"{self.variant}-warm").read_text(errors="replace").strip()
            steps.promise(not status, f"hugealign warm {self.variant}: {output}")

    def start(self) -> None:
        """Start it and wait until it answers; raises Failed.  It ends with this process, however that ends."""
        steps, server = self.example.steps, self.example.server
        self.bring()
        steps.output(["mkdir", "-p", self.socket])
        words = [*steps.as_user("--pdeathsig", server.ending), *self.words(server.serve["start"])]
        with Path(f"{self.data}.log").open("ab") as log:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.data.parent, start_new_session=True
            )
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            if not steps.run(self.words(server.serve["ping"]), log="ping", accept=ANY):
                return
            time.sleep(0.1)
        raise Failed(f"{self.variant}: no server: see {self.data}.log")

    def stop(self) -> None:
        """Stop it, if it runs."""
        if self.process is None:
            return
        self.process.send_signal(signal.Signals[f"SIG{self.example.server.ending}"])
        try:
            self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    @property
    def pid(self) -> int:
        """Its process; 0 if it does not run."""
        return self.process.pid if self.process else 0

    def processes(self) -> str:
        """Return the process and its children that stay, for perf: not the child of a client that has just gone."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        first = children.read_text(encoding="ascii").split()
        time.sleep(1)
        return ",".join([str(self.pid), *sorted({*first} & {*children.read_text(encoding="ascii").split()})])

    def text(self) -> Text:
        """Return what the kernel maps its text with."""
        return mapped(self.pid, self.program)

    def work(self, load: str, seconds: int, seed: int) -> dict[str, float]:
        """Do a load for some *seconds*; return transactions per second, and processor time where it is known."""
        before, output = self._cpu(), self.example.steps.output(self.load(load, seconds, seed))
        used, form = self._cpu() - before, self.example.server.serve
        if re.search(form["wrong"], output) or not (match := re.search(form["rate"], output)):
            raise Failed(f"{self.variant}: {load}: {output}")
        figures = {"transactions/s": float(match[1])}
        if "transactions" in form and (match := re.search(form["transactions"], output)):
            figures["CPU µs/transaction"] = used * 1e6 / int(match[1])
        return figures

    def load(self, load: str, seconds: int, seed: int) -> list[str]:
        """Return the command of a load."""
        return self.words(self.example.server.loads[load], seconds=seconds, seed=seed)

    def _cpu(self) -> float:
        """Return the processor time that its threads have taken, in seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def running(instances: Sequence[Instance]) -> Iterator[Sequence[Instance]]:
    """Run *instances*; stop them however this ends."""
    try:
        for entry in instances:
            entry.start()
        yield instances
    finally:
        for entry in instances:
            entry.stop()


def start_anew(instances: Sequence[Instance], placement: int) -> None:
    """Stop all, and start each on the data of the next, from a new copy of its link with that *placement*.

    Where memory, files and code happen to lie can make more of a difference than what is compared (Mytkowicz et al.,
    "Producing wrong data without doing anything obviously wrong!", ASPLOS 2009); so none keeps its place.
    """
    for entry in instances:
        entry.stop()
    data = [entry.data for entry in instances]
    for entry, of_next in zip(instances, [*data[1:], data[0]], strict=True):
        entry.data, entry.placement = of_next, placement
        entry.start()
