"""What may be named on the command line, in which order the reports come, and several processes at work."""

import io
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.errors import UsageError
from hugealign.verification.inputs import names_from, parse_jobs
from hugealign.verification.result import FileReport
from hugealign.verification.verify import VerifyOptions, check_all
from tests.support import HUGEALIGN, run
from tests.trees import PROGRAM, make, tar

JOBS = pytest.mark.parametrize("jobs", [1, 2, 5])


def check(*paths: object, jobs: int = 1, passed: "Counter[str] | None" = None) -> list[FileReport]:
    words = [str(path) for path in paths]
    return list(check_all(words, VerifyOptions(recursive=True, jobs=jobs), Counter() if passed is None else passed))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make(tmp_path)


WALKED = ["a/deep/er/program", "b/1", "b/2", "c.tar!m", "z", "\udcff\nodd"]


@JOBS
def test_a_walk(tree: Path, jobs: int) -> None:
    """Sorted; symbolic links are not followed, so loops end; a hard link to what was checked is only counted."""
    passed: Counter[str] = Counter()
    reports = check(tree, jobs=jobs, passed=passed)
    assert [os.path.relpath(r.path, tree) for r in reports] == WALKED
    assert {r.verdict for r in reports} == {"ok"}
    assert passed == {"others": 2, "links": 1}


@JOBS
def test_order_is_that_of_the_words(tree: Path, jobs: int) -> None:
    words = [
        tree / "z",
        tree / "b",
        "/no/such",
        tree / "link",
        tree / "c.tar",
        tree / "empty",
        tree / "text",
        tree / "b",
    ]
    reports = check(*words, jobs=jobs)
    paths = [os.path.relpath(r.path, tree) for r in reports]
    missing = os.path.relpath("/no/such", tree)
    assert paths == ["z", "b/1", "b/2", missing, "link", "c.tar!m", "empty", "text", "b/1", "b/2"]
    assert {path: r.problem.code for path, r in zip(paths, reports, strict=True) if r.problem} == {
        missing: "file.unreadable",
        "empty": "file.empty",
        "text": "file.not-elf",
    }


@JOBS
def test_nothing_to_check_says_what_was_there(tree: Path, jobs: int) -> None:
    (tree / "empty" / "x").write_text("x" * 100)
    (tree / "empty" / "y").write_text("x")
    (report,) = check(tree / "empty", jobs=jobs)
    assert report.problem == Diagnosis("file.empty", str(tree / "empty"), {"others": 2})


def test_a_directory_needs_permission(tree: Path) -> None:
    (report,) = check_all([str(tree)], VerifyOptions(), Counter())
    assert report.problem == Diagnosis("file.directory", str(tree), {}, Remedy("recurse"))


def test_links_that_were_named_are_followed(tree: Path) -> None:
    (tree / "to-directory").symlink_to("b")
    assert [r.verdict for r in check(tree / "link", tree / "b/1", tree / "b/hard", tree / "to-directory")] == ["ok"] * 5


def test_a_process_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    problem = check("4711")[0].problem
    assert problem == Diagnosis(
        "file.unreadable", "4711", {"error": "ENOENT"}, Remedy("process", ("hugealign", "ps", "4711"))
    )
    shutil.copy(PROGRAM, "4711")
    assert check("4711")[0].verdict == "ok"


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A directory whose path is longer than the kernel takes; removed by rm(1), because shutil.rmtree recurses."""
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("a" * 8, dir_fd=here)
        below = os.open("a" * 8, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    yield tmp_path
    run("rm", "-rf", tmp_path / ("a" * 8), check=True)


def test_very_deep_directories(deep: Path) -> None:
    """One problem, and the rest is checked."""
    shutil.copy(PROGRAM, deep / "z")
    assert [r.problem and r.problem.facts for r in check(deep)] == [{"error": "ENAMETOOLONG"}, None]


@pytest.mark.parametrize(
    ("data", "null", "names"),
    [
        (b"a\nb c\n\nd", False, ["a", "b c", "d"]),
        (b"a\nb\0\xff\0", True, ["a\nb", "\udcff"]),
        (b"", False, []),
        (b"\n" * 100000 + b"a", False, ["a"]),
        (b"".join(b"%d\n" % n for n in range(50000)), False, [str(n) for n in range(50000)]),
    ],
)
def test_lists_of_names(data: bytes, null: bool, names: list[str]) -> None:
    assert list(names_from(io.BytesIO(data), null)) == names


def test_a_list_that_is_none() -> None:
    with pytest.raises(UsageError, match="not a list of names"):
        list(names_from(io.BytesIO(b"x" * (1 << 20)), null=False))


@pytest.mark.parametrize("text", ["-1", "+1", "1_0", " 1", "x", "1.5", "1000", "", "\u0662", "9" * 5000])
def test_jobs_that_are_none(text: str) -> None:
    with pytest.raises(UsageError):
        parse_jobs(text)


def test_jobs() -> None:
    assert parse_jobs("0") == parse_jobs("auto") == len(os.sched_getaffinity(0))
    assert parse_jobs("3") == 3


@pytest.mark.parametrize("jobs", [1, 3])
def test_many_files(tmp_path: Path, jobs: int) -> None:
    """More files than fit in a batch, some of them archives with more programs than go in one message."""
    program = PROGRAM.read_bytes()
    for number in range(200):
        if number % 50 == 7:
            (tmp_path / f"{number:03}").write_bytes(tar(*((f"{m:03}", program) for m in range(150))))
        else:
            shutil.copy(PROGRAM, tmp_path / f"{number:03}")
    paths = [os.path.relpath(r.path, tmp_path) for r in check(tmp_path, jobs=jobs)]
    assert paths == sorted(paths)
    assert len(paths) == 196 + 4 * 150


def test_a_worker_that_is_killed(tmp_path: Path) -> None:
    """A report on the file that it was at, and on all others: no hang, no traceback.

    The worker kills itself at some names; this stands for the kernel, out of memory.
    """
    script = f"""
import sys; sys.path.insert(0, {str(HUGEALIGN.parents[1])!r})
from collections import Counter
from hugealign.verification import opening, verify
import os, signal
real = opening.check_fd
def check_fd(fd, name, policy):
    if name.endswith("5"): os.kill(os.getpid(), signal.SIGKILL)
    if name.endswith("77"): os.kill(os.getpid(), signal.SIGINT)
    return real(fd, name, policy)
opening.check_fd = check_fd
for report in verify.check_all([sys.argv[1]], verify.VerifyOptions(recursive=True, jobs=2), Counter()):
    print(os.path.basename(report.path), report.problem.code if report.problem else report.verdict)
"""
    for number in range(100):
        shutil.copy(PROGRAM, tmp_path / f"{number:02}")
    done = run(sys.executable, "-c", script, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    died = {*range(5, 100, 10), 77}
    assert done.stdout.splitlines() == [f"{n:02} {'file.worker' if n in died else 'ok'}" for n in range(100)]


def test_a_large_file_costs_no_memory(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as out:
        out.write(PROGRAM.read_bytes())
        out.truncate(1 << 30)
    words = [sys.executable, "-c", PEAK, str(HUGEALIGN.parents[1]), str(tmp_path / "x")]
    assert int(run(*words, check=True).stdout) < 40


PEAK = """
import sys
sys.path.insert(0, sys.argv[1])
from collections import Counter
from hugealign.verification import verify
list(verify.check_all(sys.argv[2:], verify.VerifyOptions(), Counter()))
print(int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) >> 10)
"""
