"""Each diagnosis that ends a look at a process, or work on a store: made, looked for, and gone once it is not so."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.live import stock as stocks
from tests.live.programs import NOBODY, ROOT, Programs, running
from tests.strace import faulty
from tests.support import need

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is needed for most situations")

#: Asks, and prints the diagnosis.
_ASK = """
import json, os, sys
from hugealign.diagnosis import render
from hugealign.diagnosis.refusal import diagnosed
from hugealign.errors import HugealignError
from hugealign.io import regular, replacing
from hugealign.process import naming, perf_samples, processes, running
from hugealign.process.advice import Adviser
from hugealign.run import store
from hugealign.watch import adapt, ps
question, *words = sys.argv[1:]
try:
    exec(question)
    print("null")
except HugealignError as error:
    print(json.dumps(render.document(diagnosed(words[0], error))))
"""
_ADVISE = "Adviser(int(words[0])).collapse(0, 2 << 20)"
_LATE = """
def late(pid):
    if words == ["true"]:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return processes.read(pid)
running.look_until(words, look_at=late)
"""
_ADAPT = """
(done,) = adapt.adapt(words, adapt.AdaptOptions(1, 0.1))
if done.error:
    raise done.error
"""
_LOCKED = "regular.LOCK_SECONDS = 0.2\n"
_STAGE = "store.stage(*words)"


@dataclass(frozen=True, slots=True)
class Question:
    """Python that asks about *words*; *prefix* is what is around it."""

    text: str
    words: tuple[str | Path, ...]
    prefix: tuple[str, ...] = ()

    def answer(self) -> dict[str, Any] | None:
        """Return the diagnosis, None if there is none."""
        words = (*self.prefix, sys.executable, "-c", _ASK, self.text, *map(str, self.words))
        done = subprocess.run(words, check=True, capture_output=True, text=True, cwd="/", env=_ENVIRON)
        result: dict[str, Any] | None = json.loads(done.stdout)
        return result


_ENVIRON = {**os.environ, "PYTHONPATH": str(ROOT)}
HERE = str(os.getpid())

#: Yields a question in the situation and, if that can end, the same one without it.
Situation = Callable[[Programs, Path], Iterator[Question]]


def only(*questions: Question) -> Situation:
    """Nothing has to be made."""
    return lambda _programs, _place: iter(questions)


def gone(_: Programs, __: Path) -> Iterator[Question]:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    for pid in (str(child.pid), HERE):
        yield Question("processes.read(int(words[0]))", (pid,))


def misnamed(_: Programs, __: Path) -> Iterator[Question]:
    name = os.path.basename(os.path.realpath("/proc/self/exe"))
    for word in (f"{name}x", name):
        yield Question("naming.find(*words)", (word,))


def sampled_often(_: Programs, __: Path) -> Iterator[Question]:
    most = int(Path("/proc/sys/kernel/perf_event_max_sample_rate").read_text(encoding="ascii"))
    for frequency in (most + 1, most):
        yield Question("perf_samples.sample(int(words[0]), 0.1, int(words[1]))", (HERE, str(frequency)))


def with_little_text(programs: Programs, place: Path) -> Iterator[Question]:
    (place / "main.c").write_text('#include <unistd.h>\nint main(void) { write(1, "ready\\n", 6); pause(); }\n')
    subprocess.run(["gcc", "-w", "-static", place / "main.c", "-o", place / "little"], check=True)
    for words in ((place / "little",), (programs.good, "5")):
        with running(*words) as child:
            yield Question(_ADAPT, (str(child.pid),))


def file_locked(programs: Programs, place: Path) -> Iterator[Question]:
    path = Path(shutil.copy(programs.good, place))
    question = Question(f"{_LOCKED}replacing.replace(words[0], lambda _: False)", (path,))
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield question
    yield question


def store_locked(programs: Programs, place: Path) -> Iterator[Question]:
    question = Question(_LOCKED + _STAGE, (programs.good, place / "store"))
    assert question.answer() is None
    with (place / "store/lock").open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield question
    yield question


def in_the_way(*make: str) -> Situation:
    """What *make* runs is in the place of the store, until it is removed."""

    def situation(programs: Programs, place: Path) -> Iterator[Question]:
        question = Question(_STAGE, (programs.good, place / "store"))
        subprocess.run(["sh", "-ec", "; ".join(make)], cwd=place, check=True)
        yield question
        subprocess.run(["umount", place / "store"], check=False, capture_output=True)
        subprocess.run(["rm", "-r", place / "store"], check=True)
        yield question

    return situation


def open_to_all(programs: Programs, place: Path) -> Iterator[Question]:
    words = programs.good, place / "store"
    assert Question(_STAGE, words).answer() is None
    question = Question("store.stage_privately(os.open(words[0], os.O_RDONLY), words[1], False)", words)
    yield question
    (place / "store").chmod(0o700)
    yield question


#: The situation, and the kind of the remedy; None if a person has to decide.
ROWS: dict[str, tuple[Situation, str | None]] = {
    "file.locked": (file_locked, "advice"),
    "file.others-may-write": (in_the_way("mkdir store", "chmod 777 store"), None),
    "machine.no-advice": (
        only(Question(_ADVISE, (HERE,), faulty("process_madvise", "error=ENOSYS")), Question(_ADVISE, (HERE,))), None
    ),
    "machine.sample-rate": (sampled_often, "frequency"),
    "process.forbidden": (
        only(*(Question("processes.read(int(words[0]))", (HERE,), prefix) for prefix in (NOBODY, ()))), "as-root"
    ),
    "process.gone": (gone, None),
    "process.kernel-thread": (
        only(*(Question("processes.read(int(words[0]))", (pid,)) for pid in ("2", HERE))), None
    ),
    "process.little-text": (with_little_text, None),
    "process.no-advice": (
        only(Question(_ADVISE, (HERE,), ("setpriv", "--bounding-set=-sys_nice")), Question(_ADVISE, (HERE,))), None
    ),
    "process.no-samples": (
        only(*(Question("perf_samples.sample(int(words[0]), 0.1)", (HERE,), prefix) for prefix in (NOBODY, ()))),
        "as-root",
    ),
    "process.refused": (
        only(Question(_ADVISE, (HERE,), faulty("pidfd_open", "error=EMFILE")), Question(_ADVISE, (HERE,))), None
    ),
    "process.short-lived": (only(Question(_LATE, ("true",)), Question(_LATE, ("sleep", "0.3"))), None),
    "process.unknown-name": (misnamed, None),
    "program.not-started": (
        only(*(Question("ps.command(words)", words) for words in (("/no/program",), ("sleep", "0.3")))), None
    ),
    "service.no-process": (only(Question("naming.find(*words)", ("no-such-unit.service",))), None),
    "store.failed": (in_the_way("touch store"), None),
    "store.locked": (store_locked, "advice"),
    "store.not-empty": (in_the_way("mkdir -m 755 store", "touch store/file"), None),
    "store.other-mount": (in_the_way("mkdir store", "mount -t tmpfs -o huge=never none store"), None),
    "store.readable": (open_to_all, None),
}  # fmt: skip


@pytest.mark.parametrize("code", ROWS)
def test_what_ends_a_command(built: Programs, code: str) -> None:
    need("strace", "setpriv")
    if code == "process.kernel-thread" and not Path("/proc/2/comm").exists():
        pytest.skip("kernel threads are not visible here: a PID namespace")
    situation, kind = ROWS[code]
    place = built.directory / "errors"
    place.mkdir()
    try:
        with stocks.store(place):
            questions = situation(built, place)
            result = next(questions).answer()
            assert result, "no diagnosis"
            remedy = result["remedy"]
            assert (result["code"], remedy and remedy["kind"]) == (code, kind)
            assert not (remedy and remedy["argv"])
            for question in questions:
                assert question.answer() is None
    finally:
        shutil.rmtree(place)
