"""A slice of the fuzzing of commands, and what was ever found; for more, ``python -m tests.fuzz.commands``."""

import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import hugealign.cli
from hugealign.link import linkers
from hugealign.verification.verify import verify
from tests.fuzz import archives, links, room, runner
from tests.fuzz.commands import corpus
from tests.fuzz.kinds import KINDS, Case, Kind, case
from tests.fuzz.runner import Runner, smaller


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("kind", KINDS)
def test_some_of_each_kind(kind: str, running: Runner) -> None:
    assert running.run([case(kind, 1, number) for number in range(40)]) == [""] * 40


def test_what_was_found_once(running: Runner) -> None:
    kept = corpus()
    assert kept
    found = running.run([one for _, one in kept])
    assert {str(path): problem for (path, _), problem in zip(kept, found, strict=True) if problem} == {}


def test_the_same_number_makes_the_same_case() -> None:
    for kind in KINDS:
        assert case(kind, 7, 3) == case(kind, 7, 3)


@pytest.mark.parametrize("kind", archives.KINDS)
def test_most_of_an_archive_is_right(kind: str, tmp_path: Path) -> None:
    """The grammar is neither so wild that no member is found, nor so tame that none is damaged."""
    within = damaged = 0
    for number in range(150):
        (tmp_path / "x").write_bytes(archives.KINDS[kind](random.Random(number)))
        results = verify(tmp_path / "x").files
        within += any("!" in file.path for file in results)
        damaged += any(file.problem and "!" not in file.path for file in results)
    assert kind in ("thin", "compressed") or within > 20
    assert damaged > 10


#: Files of 400,000 bytes each, without names, all at once.
_FILES = """\
f = [open(os.open(os.environ['TMPDIR'], os.O_TMPFILE | os.O_RDWR), 'w') for _ in range({})]
for one in f: one.write('x' * 400_000); one.flush()
"""


def bombs() -> Iterator[tuple[str, str]]:
    yield "raise KeyError('x')", "traceback: KeyError: 'x'"
    yield "sys.exit(9)", "status 9"
    yield "print('x'); sys.exit(2)", "status 2 and something on standard output"
    yield "print('x' * 5000, file=sys.stderr)", "5001 bytes on stderr"
    yield "print(chr(27))", "stdout is not printable"
    yield "print(chr(27), file=sys.stderr)", "stderr is not printable"
    yield "raise MemoryError", "more than 256 MiB of memory"
    yield "x = bytearray(1 << 32)", "more than 256 MiB of memory"  # more than a process of tests has left free
    yield "open('y', 'w')", "status 0 and leaves files behind"
    yield "open(os.environ['TMPDIR'] + '/y', 'w')", "status 0 and leaves files behind"
    yield _FILES.format(3), "more than 1 MiB and 4 times the file of temporary files"
    yield _FILES.format(2), ""
    yield "open('x', 'ab').write(b'more')", "changes the file"
    yield "os.kill(os.getpid(), 9)", "ended by SIGKILL"
    yield "os.truncate(1, 1 << 40)", "ended by SIGXFSZ"
    yield "while True: pass", "ended by SIGXCPU"
    yield "time.sleep(9)", "hangs"


@pytest.mark.parametrize(("code", "problem"), list(bombs()))
def test_what_is_wrong_is_seen(code: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "TMPDIR" in code and not room.possible():
        pytest.skip("no tmpfs can be mounted here")

    def main(_: list[str]) -> int:
        try:
            exec(code, {"os": os, "sys": sys, "time": time})  # noqa: S102  # ours, from above
        except MemoryError:
            print("not enough memory", file=sys.stderr)
        except OSError as error:
            print(error.strerror, file=sys.stderr)
        return 0

    monkeypatch.setattr(hugealign.cli, "main", main)
    monkeypatch.setattr(runner, "SECONDS", 0)
    monkeypatch.setattr(runner, "_HANG", 1.0 if problem == "hangs" else 60.0)
    monkeypatch.setitem(KINDS, "x", Kind(lambda _: b"", (("x",),), temporary=(1 << 20, 4)))
    cases = [Case("x", ("x",), b"abc")]
    assert Runner(tmp_path).run(cases) == [problem]


def test_only_what_is_needed_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def main(_: list[str]) -> int:
        return 77 if b"needle" in Path("x").read_bytes() else 0

    monkeypatch.setattr(hugealign.cli, "main", main)
    running = Runner(tmp_path)
    broken = Case("ar", ("verify", "@"), b"hay" * 50 + b"needle" + b"hay" * 50)
    assert smaller(running, broken, "status 77").data == b"needle"


def test_most_links_are_laid_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What goes in, what comes out and the order are neither so wild nor so tame that the shim keeps out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HUGEALIGN_DEBUG", "1")
    for name, data in links.beside().items():
        (tmp_path / name).write_bytes(data)
        (tmp_path / name).chmod(0o755)
    for kind in ("link-inputs", "link-output", "link-order"):
        for number in range(40):
            one = case(kind, 3, number)
            (tmp_path / "x").write_bytes(one.data)
            KINDS[kind].run(["x" if word == "@" else word for word in one.command])
    said = capfd.readouterr().err
    assert sum(said.count(f" as {name}: ") for name in linkers.KINDS) > 90
    assert said.count("is not an order file") < 20
