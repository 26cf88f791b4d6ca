"""``hugealign adapt`` on this kernel: windows of running processes are huge where they are hot, and never too many."""

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hugealign as api
from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.process import perf_samples
from hugealign.process.advice import Adviser
from hugealign.process.pagemap import State
from hugealign.watch import adapt as module
from hugealign.watch.adapt import AdaptOptions, keep_adapting, undo
from tests.costs import windows
from tests.documents import check
from tests.live.programs import NO_THP, NOBODY, ROOT, WINDOW, Programs, chill, hugealign
from tests.live.programs import running as started
from tests.support import advised, need, worded

SHORT = AdaptOptions(windows=2, seconds=0.4, rate=100)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to advise other processes")


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("adapt") / "arena"
    subprocess.run(["gcc", "-O2", "-o", path, ROOT / "tests" / "live" / "arena.c"], check=True)
    return path


class Running:
    """A running arena."""

    def __init__(self, child: "subprocess.Popen[str]") -> None:
        self.child = child
        self.pid = child.pid

    def say(self, words: str) -> str:
        assert self.child.stdin
        assert self.child.stdout
        self.child.stdin.write(words + "\n")
        self.child.stdin.flush()
        return self.child.stdout.readline().strip()

    def huge(self) -> int:
        """The windows of executable memory without a file that are huge; reads smaps in its own way."""
        total, inside = 0, False
        for line in Path(f"/proc/{self.pid}/smaps").read_text(encoding="utf-8").splitlines():
            words = line.split()
            if not words[0].endswith(":"):
                inside = "x" in words[1] and (len(words) < 6 or words[5] == "/dev/zero")
            elif inside and words[0] in ("AnonHugePages:", "ShmemPmdMapped:"):
                total += int(words[1])
        return total // (WINDOW >> 10)


@contextlib.contextmanager
def running(arena: Path, windows: int, hot: int, *more: str, prefix: tuple[str, ...] = ()) -> Iterator[Running]:
    words = [*prefix, str(arena), str(windows), str(hot), *more]
    with contextlib.suppress(OSError):  # other work of the machine may have left no free memory in one piece
        Path("/proc/sys/vm/compact_memory").write_text("1", encoding="ascii")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == "ready\n"
            yield Running(child)
        finally:
            child.kill()


def adapt(*words: str, statuses: tuple[int, ...] = (0,)) -> dict[str, Any]:
    done = hugealign("adapt", "--json", "--seconds", "0.4", *words)
    assert (done.returncode in statuses, done.stderr) == (True, ""), done.stdout
    result: dict[str, Any] = check(done.stdout)
    return result["processes"][0]  # type: ignore[no-any-return]


def codes(results: dict[str, Any]) -> set[str]:
    """Return the codes of the diagnoses of windows."""
    return {window["diagnosis"]["code"] for window in results["windows"] if window["diagnosis"]}


@pytest.mark.parametrize("more", [(), ("shared",)], ids=["private", "shared"])
def test_hottest_windows_become_huge_and_undo_splits_them(arena: Path, more: tuple[str, ...]) -> None:
    with running(arena, 6, 2, *more) as process:
        # On a busy machine 0.4 seconds can pass without a sample.
        result = adapt("--windows", "2", "--seconds", "2", str(process.pid))
        assert process.huge() == result["windows_huge"] == 2
        assert result["samples"]
        assert (result["share_before"], result["share_after"] > 0.5) == (0, True)
        hot = {window["start"] for window in result["windows"][:2]}
        assert {window["start"] for window in result["windows"] if window["after"] == "huge"} == hot
        done = hugealign("adapt", "--undo", str(process.pid))
        assert (done.returncode, process.huge()) == (0, 0)
        assert "0 of at most 0 windows are huge" in done.stdout


@pytest.mark.matrix
def test_memory_without_huge_pages_by_the_programs_own_wish(arena: Path) -> None:
    """The kernel's answer is the one for files that it cannot collapse."""
    with running(arena, 2, 1) as process:
        process.say("forbid")
        result = adapt("--windows", "1", str(process.pid), statuses=(1,))
        assert process.huge() == 0
        assert codes(result) == {"program.small-pages"}
        assert {window["diagnosis"]["remedy"] for window in result["windows"] if window["diagnosis"]} == {None}
    with running(arena, 2, 1, prefix=NO_THP) as process:
        result = adapt("--windows", "1", str(process.pid), statuses=(1,))
        assert process.huge() == 0
        assert codes(result) == {"program.thp-disabled"}  # nothing tells that from the program's own call


@pytest.mark.matrix
def test_a_window_that_the_kernel_does_not_split_at_once(arena: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing if another process holds one of the pages at that moment; here it is not called three times."""
    split = Adviser.split
    asked: list[int] = []

    def late(adviser: Adviser, address: int) -> int:
        asked.append(address)
        return split(adviser, address) if asked.count(address) > 3 else 0

    monkeypatch.setattr(Adviser, "split", late)
    with running(arena, 6, 2) as process:
        adapt("--windows", "2", "--seconds", "2", str(process.pid))
        (done,) = undo([str(process.pid)])
        assert (done.met, process.huge()) == (True, 0)
    assert {asked.count(address) for address in asked} == {4}


@pytest.mark.matrix
@pytest.mark.parametrize(("number", "tries"), [(0, 1 + module._AGAIN), (errno.EBUSY, 1)], ids=["silent", "refused"])
def test_all_tries_are_work(arena: Path, number: int, tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a window which is never split takes no more of the time than others.  A refusal is final."""
    asked: list[int] = []

    def split(_: Adviser, address: int) -> int:
        asked.append(address)
        return number

    with running(arena, 4, 2) as process:
        samples = perf_samples.sample(process.pid, 2)
        adapter = module._Adapter(SHORT, 2)
        assert adapter.adapt(process.pid, samples)
        monkeypatch.setattr(Adviser, "split", split)
        adapter.most = 0
        done = adapter.adapt(process.pid, samples)
        assert done
        assert len(done.changes) == process.huge() == 2
    assert {asked.count(address) for address in asked} == {tries}
    assert all(change.seconds >= (tries - 1) * module._MOMENT for change in done.changes)
    assert adapter.pause >= done.changes[-1].seconds / module._WORK


@pytest.mark.matrix
def test_a_window_that_stays_huge_for_no_known_reason(arena: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel says nothing and does nothing; trying again, which is what is advised, helps."""
    with running(arena, 2, 1) as process:
        adapt("--windows", "2", str(process.pid))
        with monkeypatch.context() as patched:
            patched.setattr(Adviser, "split", lambda *_: 0)
            (done,) = undo([str(process.pid)])
        result = [change.diagnosis for change in done.changes]
        assert result == [Diagnosis("thp.unchanged", str(arena), {}, Remedy("retry"))] * 2
        (done,) = undo([str(process.pid)])
        assert (done.met, done.changes[0].diagnosis, process.huge()) == (True, None, 0)


def test_a_window_that_a_child_has_too_is_not_split(arena: Path) -> None:
    with running(arena, 2, 1) as process:
        adapt("--windows", "2", str(process.pid))
        assert process.say("fork") == "done"
        (done,) = undo([str(process.pid)])
        result = [change.diagnosis for change in done.changes]
        assert result == [Diagnosis("process.shared-window", str(arena), {})] * 2
        (child,) = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
        os.kill(child, signal.SIGKILL)
        assert process.say("wait") == "done"
        (done,) = undo([str(process.pid)])
        assert (done.met, process.huge()) == (True, 0)


def test_a_program_without_a_window_is_told_what_its_file_is(built: Programs) -> None:
    with started("setarch", "-R", built.plain, "5") as child:
        result = adapt(str(child.pid), statuses=(1,))
    assert (result["diagnosis"]["code"], result["diagnosis"]["remedy"]["kind"]) == ("text.no-window", "start")


@pytest.mark.matrix
def test_never_more_than_so_many_when_the_heat_moves(arena: Path) -> None:
    with running(arena, 6, 2) as process:
        most, ended = [0], threading.Event()

        def look() -> None:
            while not ended.is_set():
                most.append(process.huge())

        thread = threading.Thread(target=look)
        thread.start()
        try:
            rounds = keep_adapting([str(process.pid)], 0.1, SHORT)
            for _ in range(2):
                (done,) = next(rounds)
                assert (done.huge, done.after > 0.5) == (2, True)
                hot = {window.start for window in done.windows[:2]}
                assert process.say("rotate") == "done"
                (done,) = next(rounds)
                assert {window.start for window in done.windows[:2]} != hot
        finally:
            ended.set()
            thread.join()
        assert max(most) == 2
        assert adapt("--windows", "1", str(process.pid))["windows_huge"] == process.huge() == 1  # run again, with less


def test_processes_that_share_code_agree(arena: Path) -> None:
    """As PHP's workers do: what one wants huge, another must not split."""
    with running(arena, 4, 2, "shared", "fork") as process:
        (child,) = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
        rounds = keep_adapting([str(process.pid), str(child)], 0.1, SHORT)
        first, second = next(rounds), next(rounds)
        assert [item.pid for item in first] == [process.pid, child]
        assert first[0].changes
        for done in (first, second):
            assert max(item.huge for item in done) <= 2
        assert not first[1].changes  # it would choose what the first has chosen


@pytest.mark.matrix
def test_a_program_of_many_huge_windows_is_brought_down_to_the_cap(arena: Path) -> None:
    """More huge windows than entries is slower than none: what the seeds of this idea ran into."""
    with running(arena, 6, 6) as process:
        assert adapt("--windows", "6", str(process.pid))["windows_huge"] == 6
        result = adapt("--windows", "2", str(process.pid))
        assert process.huge() == result["windows_huge"] == 2
        assert sorted(window["after"] for window in result["windows"]).count("huge") == 2


@pytest.mark.parametrize(("cost", "huge"), [(0.0, 4), (5.0, 2)])
def test_more_windows_are_huge_where_these_cost_nothing(arena: Path, cost: float, huge: int) -> None:
    with running(arena, 4, 4) as process:
        samples = perf_samples.sample(process.pid, 1)
        done = module._Adapter(SHORT, 2, windows(cost, over=2)).adapt(process.pid, samples)
        assert done
        assert (done.most, done.huge, process.huge()) == (huge, huge, huge)


@pytest.mark.matrix
def test_auto_is_what_the_processor_keeps(arena: Path) -> None:
    with running(arena, 3, 3) as process:
        result = adapt(str(process.pid))
        assert result["most"] == api.budget_of().windows
        assert process.huge() == min(3, result["most"])


@pytest.mark.parametrize("how", ["unmap", "protect", "exec", "kill"])
def test_process_that_changes_in_between(arena: Path, how: str) -> None:
    with running(arena, 4, 2) as process:
        asked: list[str] = []

        def change(_: float) -> None:
            if not asked and how == "kill":
                process.child.kill()
                process.child.wait()
                asked.append("killed")
            elif not asked:
                asked.append(process.say(how))

        samples = perf_samples.sample(process.pid, 0.4)
        done = module._Adapter(SHORT, 2, sleep=change).adapt(process.pid, samples)
        assert asked
        if how == "kill":
            assert done is None or not done.huge
            return
        if how == "exec":
            assert done
            assert {change.diagnosis for change in done.changes} == {Diagnosis("process.remapped", str(arena), {})}
            (repeated,) = api.adapt([str(process.pid)], SHORT)
            assert not any(change.diagnosis for change in repeated.changes)
        assert done is None or done.huge == 0 or how == "exec"
        assert process.child.poll() is None
        # Nothing but code was made huge.
        assert "AnonHugePages:         0 kB" in Path(f"/proc/{process.pid}/smaps").read_text(encoding="utf-8")
        if how != "exec":
            total = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="utf-8")
            assert "AnonHugePages:         0 kB" in total


def test_process_that_is_gone_and_kernel_thread_and_name_of_nobody(arena: Path) -> None:
    with running(arena, 2, 1) as process:
        pass
    for target, status in ((str(process.pid), 3), ("2", 3), ("no-such-program", 3), ("no-such.service", 3)):
        done = hugealign("adapt", "--seconds", "0.1", target)
        assert done.returncode == status, target
        assert len((done.stdout + done.stderr).splitlines()) == 1


@pytest.mark.matrix
def test_ordinary_user_is_refused_in_one_line(arena: Path) -> None:
    if subprocess.run([*NOBODY, sys.executable, "-c", "import argparse"], check=False).returncode:
        pytest.skip("this Python does not run as nobody")
    arena.parent.parent.chmod(0o755)
    with running(arena, 3, 1) as process:
        done = hugealign("adapt", "--seconds", "0.2", str(process.pid), prefix=NOBODY)
        assert done.returncode == 3
        assert "as root" in done.stdout + done.stderr
        assert process.huge() == 0


@pytest.mark.parametrize("staged", [True, False])
def test_text_of_files_where_the_kernel_collapses_it(tmp_path: Path, staged: bool) -> None:
    """A copy on tmpfs, as `hugealign stage` makes them, in small pages; and a file elsewhere, as the kernel likes."""
    source = 'int main(void) { __asm__("jmp 1f\\n .skip 5<<19\\n 1: nop\\n jmp 1b\\n .skip 5<<19"); }'
    with tempfile.TemporaryDirectory(dir="/dev/shm" if staged else tmp_path) as name:
        path = os.path.join(name, "text")
        words = ["gcc", "-xc", "-", "-o", path, "-Wl,-z,max-page-size=0x200000,-z,separate-code"]
        subprocess.run(words, input=source, text=True, check=True)
        chill(Path(path))
        with subprocess.Popen([path]) as child:
            try:
                time.sleep(0.2)
                done = hugealign("adapt", "--seconds", "0.4", str(child.pid))
            finally:
                child.kill()
    if staged or not done.returncode:  # some kernels collapse both
        assert (done.returncode, "text: small -> huge" in done.stdout) == (0, True)
    else:
        assert (
            done.stdout.count(f"{worded('thp.refused', error='EINVAL')}\n  {advised('start', 'hugealign', 'run')} ")
            == 1
        )


def test_api_and_undo(arena: Path) -> None:
    with running(arena, 3, 1) as process:
        # On a busy machine it may get little of a processor.
        (done,) = api.adapt([str(process.pid)], replace(SHORT, seconds=3))
        assert (done.huge, done.met, done.samples > 10) == (2, True, True)
        change, other = done.changes  # there was also room for one that does not run
        assert (change.state, change.window.heat > done.samples / 2) == (State.HUGE, True)
        assert (other.state, other.window.heat) == (State.HUGE, 0)
        (done,) = undo([str(process.pid)])
        assert (done.huge, process.huge()) == (0, 0)


@pytest.mark.parametrize(
    "words", [["--windows", "0", "1"], ["--undo", "--watch", "1", "1"], [], ["--windows", "x", "1"]]
)
def test_usage(words: list[str]) -> None:
    assert hugealign("adapt", *words).returncode == 2


def test_says_once_that_it_waits() -> None:
    words = [sys.executable, "-m", "hugealign", "adapt", "--watch", "0.05", "no-such-program"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stderr
        output = child.stderr.readline()
        time.sleep(0.5)
        child.terminate()
        assert (output, child.stderr.read()) == (
            "hugealign: warning: adapt: no process is named no-such-program now; retrying every 0.05 s\n",
            "",
        )


@pytest.mark.matrix
def test_gaps_that_a_program_sees_meanwhile(arena: Path) -> None:
    """The times are printed, for docs/explanation/what-runs.md."""
    with running(arena, 16, 16) as process:
        without = [int(word) for word in process.say("pause 3000").split()]
        assert process.child.stdin
        process.child.stdin.write("pause 3000\n")
        process.child.stdin.flush()
        began = time.process_time()
        (done,) = api.adapt([str(process.pid)], AdaptOptions(windows=16, seconds=0.5))
        work = time.process_time() - began
        assert process.child.stdout
        during = [int(word) for word in process.child.stdout.readline().split()]
    print(f"gaps in microseconds, 99 % and the longest: {without}, {during}; work: {work:.3f} s")
    assert len(done.changes) == 16


@contextlib.contextmanager
def runtime(*words: str, ready: float = 4.0, **options: Any) -> Iterator[int]:
    """Run a program that compiles, until it has."""
    need(words[0])
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, **options) as child:
        try:
            time.sleep(ready)
            assert child.poll() is None
            yield child.pid
        finally:
            child.kill()


def adapt_soon(pid: int) -> dict[str, Any]:
    """Adapt once the runtime has compiled enough; libraries may be on a file system that is not collapsed."""
    for _ in range(20):
        result = adapt("--windows", "4", str(pid), statuses=(0, 1, 3))  # 3: nothing compiled yet
        if result["windows_huge"]:
            break
        time.sleep(2)
    assert 0 < result["windows_huge"] <= 4, result
    return result


@pytest.mark.matrix
def test_hotspot(tmp_path: Path) -> None:
    if not shutil.which("javac"):
        pytest.skip("no javac here: apt-get install openjdk-17-jdk-headless")
    subprocess.run([sys.executable, "-m", "tests.live.jit", "java", tmp_path], check=True, cwd=ROOT)
    with runtime("java", "-Xmx512m", "-cp", str(tmp_path), "Work", ready=10) as pid:
        result = adapt_soon(pid)
    assert any(window["part"] == "" and window["after"] == "huge" for window in result["windows"])


@pytest.mark.matrix
def test_php(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "tests.live.jit", "php", tmp_path], check=True, cwd=ROOT)
    # What was written less than two seconds ago is not compiled otherwise.
    options = ("enable_cli=1", "jit=function", "jit_buffer_size=32M", "file_update_protection=0")
    words = [word for option in options for word in ("-d", f"opcache.{option}")]
    with runtime("php", *words, str(tmp_path / "work.php")) as pid:
        assert adapt_soon(pid)["share_after"] > 0.3


@pytest.mark.matrix
def test_luajit(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "tests.live.jit", "lua", tmp_path], check=True, cwd=ROOT)
    words = ("-Osizemcode=16384", "-Omaxmcode=32768", "-Omaxtrace=20000", "-Ohotloop=2")
    with runtime("luajit", *words, str(tmp_path / "work.lua")) as pid:
        assert adapt_soon(pid)["share_after"] > 0


def row_of_code(pid: int) -> dict[str, Any]:
    result = json.loads(hugealign("top", "--json").stdout)["rows"]
    (row,) = (row for row in result if pid in row["pids"] and row["kind"] == "code")
    return dict(row)


@pytest.mark.matrix
def test_v8_keeps_code_in_pieces_and_nothing_is_named(tmp_path: Path) -> None:
    need("node")
    if not subprocess.run(["node", "--version"], capture_output=True, check=True).stdout.startswith(b"v20."):
        pytest.skip("another node than 20: see the next test")
    subprocess.run([sys.executable, "-m", "tests.live.jit", "js", tmp_path], check=True, cwd=ROOT)
    with runtime("node", str(tmp_path / "work.js"), ready=8) as pid:
        row = row_of_code(pid)
        done = hugealign("adapt", "--seconds", "1", str(pid))
    assert (row["windows_possible"], row["windows_reachable"], row["diagnosis"]["remedy"]) == (0, 0, None)
    assert done.returncode == 1
    assert f"  {worded('runtime.no-window', runtime='V8')}\n" in done.stdout


@pytest.mark.matrix
def test_v8_keeps_code_in_one_mapping_and_the_command_that_is_named_makes_it_huge(tmp_path: Path) -> None:
    need("npm")
    words: list[str | Path] = ["npm", "install", "--no-audit", "--no-fund", "--prefix", tmp_path, "node@24"]
    if subprocess.run(words, check=False, capture_output=True, timeout=200).returncode:
        pytest.skip("npm cannot download node@24")
    subprocess.run([sys.executable, "-m", "tests.live.jit", "js", tmp_path], check=True, cwd=ROOT)
    node = next(path for path in tmp_path.rglob("bin/node") if path.stat().st_size > 20 << 20)
    with runtime(str(node), str(tmp_path / "work.js"), ready=8) as pid:
        row = row_of_code(pid)
        assert row["diagnosis"]["remedy"]["argv"] == ["hugealign", "adapt", str(pid)]
        hugealign("adapt", "--seconds", "3", str(pid))
        assert 0 < row_of_code(pid)["windows_huge"] <= row["windows_reachable"] + 1  # it compiles on
