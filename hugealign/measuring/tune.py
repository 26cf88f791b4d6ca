"""`hugealign tune` as a function: record a profile, compute an order, build with it, and keep what is faster."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from hugealign import orderfile
from hugealign.elf.image import read_image
from hugealign.elf.notes import BuildNote, read_notes
from hugealign.environment import as_given
from hugealign.errors import HugealignError
from hugealign.io import copying, replacing
from hugealign.io.execution import which
from hugealign.io.regular import opened
from hugealign.io.units import printable
from hugealign.measuring.measure import HUGE as ON_HUGE
from hugealign.measuring.measure import Measurement, MeasureOptions, Progress, measure
from hugealign.ordering.order import order
from hugealign.pagecache.measure import text_windows

#: The builds, in the order in which they are made, and what tells the wrapper apart.
PLAIN, HUGE, ORDERED = "plain", "huge", "ordered"
_RECORD = ("perf", "record", "-e", "cpu-clock:u", "-F", "999", "-g", "-o")
_PROFILE, _ORDER = "perf.data", "hot.order"


class TuneError(HugealignError):
    """A step of the way failed."""


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """How to build and to measure.

    Attributes:
        build: The shell command that builds the program, with hugealign in front of the compiler.
        place: The directory in which the builds and the profile are kept; what is there is not made again.
        measured: How to measure.
    """

    build: str
    place: str = "hugealign-tune"
    measured: MeasureOptions = field(default_factory=MeasureOptions)


@dataclass(frozen=True, slots=True)
class Tuned:
    """The *measurement* of the builds, and which of them, *kept*, is now the program."""

    measurement: Measurement
    kept: str
    order: str


def tune(command: Sequence[str], options: TuneOptions, progress: Progress = lambda _: None) -> Tuned:
    """Build a program plainly, on huge pages, and in the order of a profile of *command*, and keep what is faster.

    Args:
        command: The program and its arguments, a benchmark that ends.
        options: How to build and to measure.
        progress: Called with a line of text at each step.

    Raises:
        TuneError: A build, the record or the order failed, or did not change the program.
        HugealignError: The command cannot be measured.
    """
    found = which(command[0])
    program = Path(os.path.realpath(found)) if found else Path(command[0]).absolute()
    place = Path(options.place).absolute()
    place.mkdir(mode=0o755, parents=True, exist_ok=True)
    builds = {name: place / f"{name}-{program.name}" for name in (PLAIN, HUGE, ORDERED)}
    profile, order_path = place / _PROFILE, place / _ORDER
    _once(
        builds[PLAIN], progress, "building plainly", lambda: _build(options.build, program, {"HUGEALIGN_DISABLE": "1"})
    )
    _once(builds[HUGE], progress, "building for huge pages", lambda: _build(options.build, program, {}))
    if _windows(builds[HUGE]) <= _windows(builds[PLAIN]):
        raise TuneError(
            f"{printable(str(program))}: hugealign made no window of its text; put it in front of the compiler, as in "
            "--build 'make clean all CC=\"hugealign gcc\"'"
        )
    if not profile.exists():
        progress("recording a profile")
        _copy(builds[HUGE], program)
        _record(command, profile)
    if not order_path.exists():
        progress("computing an order")
        made = order(str(builds[HUGE]), [str(profile)])
        replacing.write(str(order_path), orderfile.write(made.file()).encode("utf-8", "surrogateescape"))
    environ = {"HUGEALIGN_PROFILE": str(order_path)}
    _once(builds[ORDERED], progress, "building in that order", lambda: _build(options.build, program, environ))
    note = _note(builds[ORDERED])
    if note is None or note.hot_start == note.hot_end:
        raise TuneError(
            f"{printable(str(order_path))}: the link placed none of its functions; compile everything again, as in "
            "--build 'make clean all CC=\"hugealign gcc\"'"
        )
    _copy(builds[PLAIN], program)
    compared = ((str(builds[HUGE]),), (str(builds[ORDERED]),))
    result = measure(command, replace(options.measured, builds=compared), progress)
    kept = _fastest(result)
    _copy(builds[kept], program)
    return Tuned(result, kept, str(order_path))


def _once(path: Path, progress: Progress, what: str, make: Callable[[], Path]) -> None:
    """Make the file at *path*, unless it is there from an earlier time."""
    if not path.exists():
        progress(what)
        _copy(make(), path)


def _build(build: str, program: Path, settings: Mapping[str, str]) -> Path:
    """Run the user's command *build*, which has to make *program* anew, and return it."""
    aside = program.with_name(f".{program.name}.before-tune")
    with suppress(FileNotFoundError):
        program.replace(aside)
    ours = ("HUGEALIGN_DISABLE", "HUGEALIGN_PROFILE")
    inherited = {name: value for name, value in as_given().items() if os.fsdecode(name) not in ours}
    environ = {os.fsencode(name): os.fsencode(value) for name, value in settings.items()}
    words = ("/bin/sh", "-c", build)  # the user's own words for their own shell, as make and cargo-pgo take them
    made = False
    try:
        status = subprocess.run(words, env=inherited | environ, stdout=subprocess.DEVNULL, check=False).returncode
        made = not status and program.exists()
    finally:  # also after an interrupt
        with suppress(FileNotFoundError):
            aside.unlink() if made else aside.replace(program)
    if not made:
        how = f"exited with {status}" if status else f"did not make {printable(str(program))}"
        raise TuneError(f"--build: the command {how}")
    return program


def _copy(source: Path, target: Path) -> None:
    with opened(str(source)) as fd, replacing.created(str(target), fd) as new:
        copying.copy_data(fd, new, os.fstat(fd).st_size)


def _windows(path: Path) -> int:
    with opened(str(path)) as fd:
        return len(text_windows(fd))


def _note(path: Path) -> BuildNote | None:
    with opened(str(path)) as fd:
        return read_notes(fd, read_image(fd)).build


def _record(command: Sequence[str], profile: Path) -> None:
    if which(_RECORD[0]) is None:
        raise TuneError("perf: command not found; on Debian: apt-get install linux-perf")
    with replacing.beside(str(profile)) as made:
        words = [*_RECORD, made, "--", *command]
        done = subprocess.run(words, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode:
            lines = os.fsdecode(done.stderr).strip().splitlines() or ["no message"]
            raise TuneError(f"perf record exited with {done.returncode}: {printable(lines[-1])}")


def _fastest(result: Measurement) -> str:
    """Return the build that is shown to take the least time; plain if none is."""
    names = [PLAIN, HUGE, ORDERED]
    sides = [side for side in result.sides if side.of_first is None or side.name != ON_HUGE]
    best, least = PLAIN, 1.0
    for name, side in zip(names, sides, strict=True):
        if side.of_first and side.of_first.high < 1 and side.of_first.ratio < least:
            best, least = name, side.of_first.ratio
    return best
