"""``hugealign advise`` on this kernel: commands and processes that would gain, and some that would not."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import hugealign as api
from hugealign.diagnosis.catalogue import REMEDIES
from hugealign.process.command_samples import sample_command
from tests.documents import check
from tests.live.programs import NOBODY, ROOT, chill, hugealign
from tests.support import need, worded

# argv[1] functions, each on a page of its own, are called in turn for argv[2] milliseconds.
SPREAD = """\
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
__asm__(".text\\n .p2align 12\\n .globl pages\\n pages: .rept 1024\\n"
        " .rept 40\\n nop\\n .endr\\n ret\\n .p2align 12\\n .endr");
extern char pages[];
int main(int argc, char **argv) {
  long count = atol(argv[1]), until = clock() + atol(argv[2]) * (CLOCKS_PER_SEC / 1000);
  if (argc > 3 && fork() && fork()) execl("/bin/true", "true", (char *)0);
  while (clock() < until)
    for (long again = 0; again < 100; again++)
      for (long page = 0; page < count; page++) ((void (*)(void))(pages + page * 4096))();
  return 0;
}
"""


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("advise") / "spread"
    subprocess.run(["gcc", "-O1", "-xc", "-", "-o", str(path)], input=SPREAD, text=True, check=True)
    return path


@pytest.fixture(autouse=True)
def sampling() -> None:
    try:
        sample_command(["true"])
    except api.errors.HugealignError as error:
        pytest.skip(str(error))


def advise(*words: str, status: int, prefix: tuple[str, ...] = ()) -> dict[str, Any]:
    done = hugealign("advise", "--json", *words, prefix=prefix)
    assert (done.returncode, done.stderr) == (status, "")
    result: dict[str, Any] = check(done.stdout)
    return result


def named(results: dict[str, Any]) -> list[str]:
    """Return the words of the command that an answer names."""
    remedy = results["diagnosis"]["remedy"] or (results["cause"] and results["cause"]["remedy"])
    return list(remedy["argv"]) if remedy else []


def test_starts_and_a_loop(spread: Path) -> None:
    """The faults of a start of milliseconds are a yes; a long loop over few pages is a no."""
    yes = advise("--", str(spread), "1000", "1", status=0)
    assert (yes["answer"], yes["diagnosis"]["code"], yes["status"]) == ("yes", "saving.yes", 0)
    assert 40 <= yes["diagnosis"]["facts"]["faults"] <= 200
    assert 0.01 < yes["saving_of_faults"]["low"] <= yes["saving_of_faults"]["value"] <= yes["saving"]["high"]
    no = advise("--frequency", "2000", "--", str(spread), "10", "1500", status=1)
    assert (no["answer"], no["diagnosis"]["code"], no["diagnosis"]["remedy"]) == ("no", "saving.no", None)
    assert 5 <= no["pages"]["0.9"] <= 20


def test_data_beside_the_code_count(tmp_path: Path) -> None:
    """In one segment with code, as of LLVM's own libraries, all of a copy is huge: 128 faults of a table are spared."""
    need("clang-19", "ld.lld-19")
    source = """
        __asm__(".section .rodata\\n .p2align 12\\n .globl table\\n table: .zero 8388608\\n"
                " .text\\n .zero 4194304, 0x90");
        extern const volatile char table[];
        int main(void) { int sum = 0; for (int at = 0; at < 8388608; at += 65536) sum += table[at]; return sum; }
    """
    path = tmp_path / "data"
    words = ["clang-19", "-O1", "-no-pie", "-fuse-ld=lld", "-Wl,--no-rosegment", "-xc", "-", "-o", str(path)]
    subprocess.run(words, input=source, text=True, check=True)
    chill(path)
    assert advise("--", str(path), status=0)["diagnosis"]["facts"]["faults"] >= 100


def test_a_processor_that_is_not_here_has_no_costs(spread: Path) -> None:
    maybe = advise("--cpu", "skylake", "--frequency", "2000", "--", str(spread), "1000", "800", status=0)
    assert (maybe["answer"], maybe["diagnosis"]["code"], maybe["saving"]) == ("maybe", "saving.no-costs", None)
    assert maybe["pages"]["0.99"] > 800 or maybe["unseen"]["value"] > 0.1
    assert maybe["windows"]["0.99"] <= 3
    assert named(maybe) == ["hugealign", "measure", "--fix", "--", str(spread), "1000", "800"]
    no = advise("--cpu", "skylake", "--frequency", "2000", "--", str(spread), "10", "800", status=1)
    assert (no["answer"], no["diagnosis"]["code"]) == ("no", "tlb.fits")


def test_the_measurement_that_is_named_agrees(spread: Path) -> None:
    typed = named(advise("--", str(spread), "1000", "1", status=0))
    assert (typed[:3], typed[-4:]) == (["hugealign", "measure", "--fix"], ["--", str(spread), "1000", "1"])
    done = hugealign("measure", "--json", "--rounds", "6", *typed[2:])
    assert (done.returncode in {0, 1}, done.stderr) == (True, ""), done
    small, huge = json.loads(done.stdout)["sides"]
    assert small["faults"] - huge["faults"] > 40
    # That this takes less time is for test_measure.py, where nothing else runs.


@pytest.fixture(scope="module")
def opened(spread: Path) -> Path:
    """A program that opens a library with the same text later; the library also has a name of its own in a cache."""
    directory = spread.parent
    source = SPREAD.replace("int main(", "int work(")
    library = directory / "libspread.so"
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", "-xc", "-", "-o", library], input=source, text=True, check=True)
    chill(library)
    os.link(library, directory / "cached")
    source = (
        "#include <dlfcn.h>\n"
        'int main(int c, char **v) { return ((int (*)(int, char **))dlsym(dlopen(v[1], 2), "work"))(c - 1, v + 1); }'
    )
    subprocess.run(["gcc", "-xc", "-", "-o", directory / "opens"], input=source, text=True, check=True)
    return library


@pytest.mark.parametrize("how", ["sh", "timeout", "env", "make", "opened"])
def test_command_that_is_named_helps_when_typed(spread: Path, opened: Path, tmp_path: Path, how: str) -> None:
    """Wherever the starts are: in a child of a shell, behind other programs, in a library that is opened later."""
    each = f"{spread.parent / 'opens'} {opened} 1000 1" if how == "opened" else f"{spread} 1000 1"
    starts = f"for each in $(seq 1200); do {each}; done"
    (tmp_path / "starts").write_text(f"{starts}\n")
    (tmp_path / "makefile").write_text(f"all:\n\tsh {tmp_path}/starts\n")
    command = {
        "sh": ["sh", "-c", starts],
        "opened": ["sh", "-c", starts],
        "timeout": ["timeout", "60", "nice", "sh", "-c", starts],
        "env": ["env", "A=1", "sh", "-c", starts],
        "make": ["make", "-s", "-f", str(tmp_path / "makefile")],
    }[how]
    hot = opened if how == "opened" else spread
    before = advise("--", *command, status=0)
    assert (before["answer"], before["diagnosis"]["code"]) == ("yes", "saving.yes")
    typed = named(before)
    assert typed[:3] == ["hugealign", "run", "--fix"]
    assert str(hot) in typed
    assert typed[-len(command) :] == command
    after = json.loads(hugealign("advise", "--json", "--", *typed).stdout)
    assert after["what"] == shlex.join(typed)
    assert after["saving_of_faults"]["value"] < before["saving_of_faults"]["value"] / 2


@pytest.mark.matrix
def test_what_is_said_of_text_that_is_huge(spread: Path) -> None:
    words = ("advise", "--json", "--frequency", "1999", "--", "hugealign", "run", "--fix", "--")
    result = json.loads(hugealign(*words, spread, "1000", "6000").stdout)
    assert (result["diagnosis"]["code"], named(result)) == ("tlb.huge-already", [])


@pytest.mark.matrix
def test_options_of_a_run_are_added_to(spread: Path, opened: Path) -> None:
    """Nothing is ever named that starts one run by another."""
    work = f"{spread} 1000 500; {spread.parent / 'opens'} {opened} 1000 500"
    words = ["hugealign", "run", "--fix", "--how=auto", "--file", str(spread), "--", "sh", "-c", work]
    result = advise("--cpu", "skylake", "--frequency", "1999", "--", *words, status=0)
    files = ["--file", str(spread), "--file", str(opened)]
    assert named(result) == ["hugealign", "measure", "--fix", *files, "--", *words[7:]]


def test_nothing_is_named_where_nothing_helps(tmp_path: Path) -> None:
    """Text that is spread over windows which no copy can have: at a fixed address, it is not 2 MiB long."""
    small = tmp_path / "small"
    source = SPREAD.replace(".rept 1024", ".rept 300")
    subprocess.run(["gcc", "-O1", "-no-pie", "-xc", "-", "-o", small], input=source, text=True, check=True)
    done = hugealign("advise", "--cpu", "skylake", "--frequency", "1999", "--", small, "290", "900")
    assert "hugealign run" not in done.stdout
    assert f"  {REMEDIES['none-known']}\n" in done.stdout


def test_output_of_the_command_is_not_in_the_answer(tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    for words, begin in ((["--json"], "{"), ([], "sh -c ")):
        done = hugealign("advise", *words, "-o", str(answer), "--", "sh", "-c", "echo of the command")
        assert (done.stdout, done.stderr) == ("of the command\n", "")
        assert answer.read_text().startswith(begin)
    done = hugealign("advise", "-o", str(tmp_path / "no/where"), "--", "true")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 1)


def test_children_and_what_they_become_are_seen(spread: Path) -> None:
    result = sample_command(["sh", "-c", f"true; {spread} 10 300 fork; exec {spread} 10 300"], frequency=2000)
    assert result.status == 0
    assert sum(count for (name, _), count in result.pages.items() if name == str(spread)) > result.pages.total() / 2


def test_process(spread: Path) -> None:
    # Before all else that runs here, if root may: what gets a tenth of a processor gives too few samples in a second.
    with subprocess.Popen(["nice", "-n", "-15", spread, "1000", "300000"], stderr=subprocess.DEVNULL) as child:
        try:
            for target in (str(child.pid), spread.name):
                result = advise("--seconds", "1", "--frequency", "2000", "--cpu", "zen3", target, status=0)
                assert result["answer"] == "maybe"
                assert result["what"] == f"{spread.name}[{child.pid}]"
                assert named(result)
            done = hugealign("advise", "-v", "--seconds", "1", str(child.pid))
        finally:
            child.kill()
    assert "  not seen yet, of what runs: " in done.stdout
    assert "answer" not in done.stderr


def test_idle_process_is_no_answer() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            result = advise("--seconds", "0.2", str(child.pid), status=3)
        finally:
            child.kill()
    assert (result["answer"], named(result)) == (
        "unknown",
        ["hugealign", "advise", "--seconds", "60", str(child.pid)],
    )


@pytest.mark.matrix
def test_process_that_ends_meanwhile(spread: Path) -> None:
    with subprocess.Popen([spread, "10", "300"]) as child:
        done = hugealign("advise", "--seconds", "1", str(child.pid))
        assert done.returncode in (1, 3)
        assert len(done.stderr.splitlines()) <= 1


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["2"], 3),
        (["4194304999"], 3),
        (["no-such-name"], 3),
        (["no-such.service"], 3),
        (["--", "no-such-command"], 127),
        (["--", "/etc/passwd"], 126),
        ([], 2),
        (["1", "--", "true"], 2),
        (["--cpu", "8086", "--", "true"], 2),
        (["--cpu", "kunpeng920", "--", "true"], 2),
    ],
)
def test_what_cannot_be_advised_is_said_in_one_line(words: list[str], status: int) -> None:
    done = hugealign("advise", "--seconds", "0.2", *words)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (status, "", 1), done


@pytest.mark.matrix
def test_ordinary_user_may_ask_about_own_processes() -> None:
    if os.geteuid() or subprocess.run([*NOBODY, sys.executable, "-c", "import argparse"], check=False).returncode:
        pytest.skip("not root, or this Python does not run as nobody")
    result = hugealign("advise", "--", "sha256sum", "/usr/bin/bash", prefix=NOBODY)
    assert result.returncode in (0, 1, 3)  # as it happens to be sampled
    assert "Traceback" not in result.stderr
    with subprocess.Popen(["sleep", "9"]) as child:
        done = hugealign("advise", "--seconds", "0.2", str(child.pid), prefix=NOBODY)
        child.kill()
    assert done.returncode == 3
    assert worded("process.no-samples", capability="CAP_PERFMON") in done.stderr


def test_a_process_that_ends_meanwhile_and_stays_a_zombie() -> None:
    with subprocess.Popen(["sleep", "1"]) as child:
        done = hugealign("advise", "--seconds", "36000", str(child.pid))
        assert os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # no process has waited for it
    assert (done.returncode, done.stderr) == (3, f"hugealign: error: {child.pid}: {worded('process.gone')}\n")


def test_hostile_name(spread: Path) -> None:
    path = spread.with_name("x\x1b]0;\n y")
    os.link(spread, path)
    done = hugealign("advise", "-v", "--", str(path), "500", "300")
    path.unlink()
    assert "\x1b" not in done.stdout + done.stderr


def advising(*words: str, **how: Any) -> subprocess.Popen[str]:
    """Start `advise` with a command, and *how* Popen is to do that."""
    command = [sys.executable, "-m", "hugealign", "advise", "--json", "--", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, **how)


@pytest.mark.matrix
def test_interrupt_is_the_command_s(spread: Path) -> None:
    script = 'echo; exec "$0" 10 20000'
    with advising("sh", "-c", script, str(spread), start_new_session=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "\n"
        time.sleep(0.2)  # some samples
        os.killpg(process.pid, signal.SIGINT)
        result = json.loads(process.stdout.read())
    assert result["status"] == -signal.SIGINT


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_command_and_the_answer_is_printed(spread: Path, number: signal.Signals) -> None:
    script = 'echo $$; exec "$0" 10 9999'
    with advising(
        "sh", "-c", script, str(spread), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)
    ) as process:
        assert process.stdout
        command = int(process.stdout.readline())
        try:
            time.sleep(0.2)
            process.send_signal(number)
            process.wait()
            with pytest.raises(ProcessLookupError):
                os.kill(command, 0)
        except BaseException:
            os.kill(command, signal.SIGKILL)
            raise
        result = json.loads(process.stdout.read())
    assert result["status"] == -number


def test_api(spread: Path) -> None:
    result = api.advise([str(spread), "10", "500"], api.AdviseOptions(frequency=3000, cpu="skylake"))
    assert (result.judged.answer, result.status) == ("no", 0)
