"""What the command line says to a user who half knows it: help, suggestions, --json, - for standard output."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hugealign.cli import COMMANDS
from tests.support import BIN, HUGEALIGN, ROOT, environment, need, run, worded

TEXT = ROOT / "README.md"


def message(*words: object, path: str = "") -> tuple[int, str]:
    """The status and the last line on standard error."""
    done = run(HUGEALIGN, *words, PATH=path or environment()["PATH"])
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.rstrip("\n").rpartition("\n")[2]


def test_help_lists_the_commands() -> None:
    done = run(HUGEALIGN, "help")
    assert done.returncode == 0
    assert done.stdout == run(HUGEALIGN, "--help").stdout
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_is_its_own(command: str) -> None:
    done = run(HUGEALIGN, "help", command)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run(HUGEALIGN, command, "--help").stdout
    assert done.stdout.startswith(f"usage: hugealign {command}")


@pytest.mark.parametrize(
    "words", ["--help", "--version", "help", "verify --help", "explain", "path cmake", "verify /bin/sh"]
)
def test_text_that_cannot_be_written_is_an_error_in_one_line(words: str) -> None:
    full = run("sh", "-c", f"{HUGEALIGN} {words} >/dev/full")
    line = "hugealign: error: standard output: cannot be written:"
    assert (full.returncode, full.stderr) == (3, f"{line} No space left on device\n")
    closed = run("sh", "-c", f"{HUGEALIGN} {words} >&-")
    assert (closed.returncode, closed.stderr) == (3, f"{line} Bad file descriptor\n")
    reading, writing = os.pipe()
    os.close(reading)
    unread = subprocess.run(
        [HUGEALIGN, *words.split()], stdout=writing, stderr=subprocess.PIPE, text=True, check=False, env=environment()
    )
    os.close(writing)
    assert (unread.returncode, unread.stderr) == (141, "")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("oci-hook </dev/null", 0),  # a container must not fail to start for a full disk
        ("run -- /no/such", 127),
        ("ps no-such-process", 3),
        ("verify /no/such", 3),
        ("verify --no-such", 2),
    ],
)
def test_messages_that_cannot_be_written_change_no_status(words: str, status: int) -> None:
    full = run("sh", "-c", f"{HUGEALIGN} {words} 2>/dev/full")
    assert full.returncode == status
    unread = run("bash", "-c", f"{{ {HUGEALIGN} {words}; echo $? >&3; }} 3>&1 2> >(exec 0<&-; sleep 1)")
    assert unread.stdout.endswith(f"{status}\n")


def test_deleted_working_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    done = run("sh", "-c", f"rmdir ../gone; {HUGEALIGN} warm program", cwd=tmp_path / "gone")
    assert done.returncode == 3
    assert "standard output" not in done.stderr


def test_output_keeps_mode_and_owner_of_the_file_it_replaces(tmp_path: Path) -> None:
    result = tmp_path / "report"
    result.write_text("old")
    result.chmod(0o640)
    if not os.geteuid():
        os.chown(result, 1, 1)
    before = result.stat()
    assert run(HUGEALIGN, "verify", "--json", "-o", result, "/bin/true").returncode in (0, 1)
    after = result.stat()
    assert result.read_text() != "old"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_an_output_that_may_only_be_written_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("old")
    (tmp_path / "report").chmod(0o200)
    owner = (
        ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    )  # root may read it
    done = run(*owner, HUGEALIGN, "verify", "/bin/true", "-o", "report", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "report").stat().st_mode & 0o777 == 0o200
    (tmp_path / "report").chmod(0o600)
    assert "/bin/true" in (tmp_path / "report").read_text()


def test_a_name_that_the_locale_lacks_is_escaped(tmp_path: Path) -> None:
    program = tmp_path / "\u65e5"
    shutil.copy2("/bin/true", program)
    for words in (["warm", "--undo", program], ["fix", "--dry-run", program], ["warm", "--check", program]):
        done = run(sys.executable, "-m", "hugealign", *words, PYTHONPATH=str(ROOT), PYTHONIOENCODING="ascii")
        assert "Traceback" not in done.stderr
        assert done.returncode in (0, 1)


def test_without_a_word_the_help_is_shown() -> None:
    done = run(HUGEALIGN)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == run(HUGEALIGN, "help").stdout


@pytest.mark.parametrize(("typed", "meant"), [("verfy", "verify"), ("verfiy", "verify"), ("ordre", "order")])
def test_a_word_close_to_a_command(typed: str, meant: str) -> None:
    wanted = f"hugealign: error: {typed}: command not found; did you mean: hugealign {meant}"
    assert message(typed, "-r", "x") == (127, wanted)
    assert message("help", typed) == (127, wanted)
    assert message("help", "x") == (127, "hugealign: error: x: command not found")
    assert message("help", "version")[1].endswith("; did you mean: hugealign --version")


def test_help_of_two_commands() -> None:
    done = run(HUGEALIGN, "help", "ps", "top")
    wanted = "hugealign: error: ps: top: one word too many; hugealign help top\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", wanted)


@pytest.mark.parametrize("typed", ["no-such-compiler", "x86_64-none-gcc", "mpicc", "/x/verfy", "verfy/x"])
def test_other_words_are_compilers_that_are_missing(typed: str, tmp_path: Path) -> None:
    sh = tmp_path / "sh"
    sh.symlink_to("/bin/sh")
    assert message(typed, "-c", "x.c", path=f"{BIN}:{tmp_path}") == (
        127,
        f"hugealign: error: {typed}: command not found",
    )


def test_a_program_of_such_a_name_is_run(tmp_path: Path) -> None:
    program = tmp_path / "verfy"
    program.write_text('#!/bin/sh\necho "ran $*"\n')
    program.chmod(0o755)
    done = run(HUGEALIGN, "verfy", "-c", "x.c", PATH=f"{BIN}:{tmp_path}:{os.environ['PATH']}")
    assert (done.returncode, done.stdout) == (0, "ran -c x.c\n")


def test_a_name_with_escapes_reaches_no_terminal() -> None:
    assert message("verif\x1by") == (
        127,
        "hugealign: error: verif\\x1by: command not found; did you mean: hugealign verify",
    )


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("doctor --jsn", "doctor: no option --jsn; did you mean --json?"),
        ("verify --windows=3 x", "verify: no option --windows; did you mean --min-windows?"),
        ("verify --fix x", "verify: no option --fix; hugealign fix FILE -o OUT changes a copy"),
        ("verify -w x", "verify: no option -w; hugealign verify --help lists them"),
        ("ps -a 1", "ps: no option -a; did you mean --all?"),
        ("ps --version", "ps: no option --version; hugealign --version prints it"),
        ("status --undo --dry-run", "status: no option --dry-run; without --undo, status only lists"),
        ("top -n1", "top: no option -n; --once prints the table once"),
        ("diff --format json a b", "diff: no option --format; did you mean --json?"),
        ("path cmake more", "path: more: one word too many; hugealign path --help says more"),
        ("ps --\x1b[2J x", "ps: no option --\\x1b[2J; hugealign ps --help lists them"),
        ("profile merge", "profile merge: the following arguments are required: FILE; {help}"),
        ("profile merge --wait 1 x", "profile: no option --wait; did you mean --weight?"),
    ],
)
def test_an_option_that_a_command_lacks_is_answered_in_one_line(typed: str, wanted: str) -> None:
    done = run(HUGEALIGN, *typed.split())
    line = wanted.format(help="hugealign profile merge --help says more")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"hugealign: error: {line}\n")


def test_every_report_has_json_and_few_have_other_formats() -> None:
    shown = {name: run(HUGEALIGN, "help", name).stdout for name in COMMANDS}
    reports = {"verify", "diff", "fix", "order", "map", "warm", "stage", "ps", "top", "advise", "adapt", "doctor"}
    reports |= {"enable", "disable", "status", "measure", "tune"}
    assert {name for name, text in shown.items() if "--json" in text} == reports
    assert {name for name, text in shown.items() if "--format" in text} == {"verify", "top"}
    for name in ("verify", "top"):
        assert message(name, "--json", "--format", "text", *["x"] * (name == "verify"))[0] == 2


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("4", "did you mean HA004?"),
        ("HA4", "did you mean HA004?"),
        ("ha-015", "did you mean HA015?"),
        ("HA999", "`hugealign explain` lists them"),
        ("x", "`hugealign explain` lists them"),
    ],
)
def test_rules(typed: str, wanted: str) -> None:
    assert message("explain", typed) == (2, f"hugealign: error: explain: no rule {typed}; {wanted}")
    status, line = message("verify", "--select", typed, "/bin/sh")
    assert (status, line.lower()) == (2, f"hugealign: error: --select: no rule {typed}; {wanted}".lower())


def test_processors() -> None:
    wanted = "hugealign: error: unknown CPU"
    assert message("order", "--cpu", "skylak", "-b", "/bin/sh", "x") == (2, f"{wanted} skylak; did you mean skylake?")
    status, line = message("order", "--cpu", "8086", "-b", "/bin/sh", "x")
    assert status == 2
    assert line.startswith(f"{wanted} 8086; known are ")


def test_processes() -> None:
    name = os.path.basename(os.path.realpath(sys.executable))
    status, line = message("ps", f"{name}x")
    assert status == 3
    assert line == f"hugealign: error: {name}x: {worded('process.unknown-name', near=name)}"
    assert message("ps", "qqqqqqqq") == (3, f"hugealign: error: qqqqqqqq: {worded('process.unknown-name')}")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("version", "version: not a command; hugealign --version prints it"),
        ("--fix run -- true", "--fix: an option follows its command: hugealign COMMAND --fix ..."),
        ("--seconds=1 top", "--seconds=1: an option follows its command: hugealign COMMAND --seconds=1 ..."),
        ("-q verify x", "-q: an option follows its command: hugealign verify -q ..."),
        ("verify", "verify: no file; example: hugealign verify ./server"),
        ("fix --dry-run --undo /", "fix: a directory cannot be undone; give the files"),
        ("fix x", "fix: no output; give -o OUT, --in-place, or --dry-run to see what it would do"),
        ("fix -o out x y", "-o takes one FILE; several are changed with --in-place"),
        ("order --type nonsense -b x p", "--type: unknown format; known are "),
        ("profile merge --weight 3 x", "--weight: not PATTERN=N, as in 'eu-*=3'"),
        ("profile merge --cap 1e3 x", "--cap: 1e3: not a number from 0 to "),
        ("stage", "stage: no file; example: hugealign stage /usr/sbin/mariadbd"),
        ("adapt --undo --windows 1 x", "adapt: --undo cannot be combined with --watch or --windows"),
        ("advise", "advise: give either a process or -- and a command"),
        ("ps x -- true", "ps: give either processes or -- and a command"),
        ("ps --watch 1 --json -o x y", "ps: --watch --json writes many documents; write to a pipe, not to a FILE"),
        ("top --watch 1 --json -o x", "top: --watch --json writes many documents; write to a pipe, not to a FILE"),
        ("trace -o - true", "trace: standard output is COMMAND's; give -o a file"),
        ("trace --limit 4K true", "--limit: less than 64.0 KiB"),
        ("simulate --windows 3-1 t", "--windows: not a range of numbers up to "),
        ("enable --max 5x mariadb", "--max: not a size (examples: 512M, 2%)"),
        ("enable --all --max 101% --dry-run", "--max: not a size (examples: 512M, 2%)"),
        ("enable --least 1 mariadb", "--least: only with --all"),
    ],
)
def test_what_contradicts_itself_is_refused_in_one_line(words: str, wanted: str) -> None:
    status, line = message(*words.split())
    assert (status, line.startswith(f"hugealign: error: {wanted}")) == (2, True), line


@pytest.mark.parametrize(("words", "name"), [("run --wait x -- true", "seconds"), ("adapt --windows x y", "windows")])
def test_a_number_that_is_none_is_called_by_what_it_counts(words: str, name: str) -> None:
    status, line = message(*words.split())
    assert (status, "invalid _" in line, f"{name} value: 'x'" in line) == (2, False, True), line


def test_the_command_comes_first() -> None:
    words = "no-such-service: command not found; did you mean: hugealign enable no-such-service"
    assert message("no-such-service", "enable") == (127, f"hugealign: error: {words}")
    assert message("no-such-service", "x") == (127, "hugealign: error: no-such-service: command not found")


def test_a_unit_that_is_also_a_program(tmp_path: Path) -> None:
    program = tmp_path / "mariadb"
    program.write_text('#!/bin/sh\necho "ran $*"\n')
    program.chmod(0o755)
    path = f"{BIN}:{tmp_path}:{os.environ['PATH']}"
    wanted = "hugealign: error: mariadb: a command comes first: hugealign enable mariadb"
    assert message("mariadb", "enable", path=path) == (2, wanted)
    assert message("mariadb", "enable", "--fix", path=path) == (2, f"{wanted} ...")
    (tmp_path / "enable").write_text("")  # then it is an input, of a compiler perhaps
    done = run(HUGEALIGN, "mariadb", "enable", PATH=path, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "ran enable\n")


def test_words_that_compilers_know_reach_them(tmp_path: Path) -> None:
    (tmp_path / "cc").write_text('#!/bin/sh\necho "cc $*"\n')
    (tmp_path / "cc").chmod(0o755)
    (tmp_path / "verify").write_text("")
    path = f"{tmp_path}:{os.environ['PATH']}"
    for words in ("--output build x.c", "-r verify", "-v x.o", "--verbose x.o", "-o ps x.o"):
        done = run(HUGEALIGN, *words.split(), PATH=path, cwd=tmp_path)
        assert (done.returncode, done.stderr, words.split()[-1] in done.stdout) == (0, "", True), words


@pytest.mark.parametrize("words", ["verify /bin/sh", "top"])
def test_json_is_also_a_format(words: str) -> None:
    done = run(HUGEALIGN, *words.split(), "--format", "json")
    assert json.loads(done.stdout)["schema"] == f"hugealign.{words.split(maxsplit=1)[0]}/1"


def test_in_a_directory_that_was_removed(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    done = run("sh", "-c", f"cd gone && rmdir ../gone && {HUGEALIGN} verify /bin/sh", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_order_asks_for_the_program_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "names").write_text("main\n")
    line = "hugealign: error: order: which program ran? give it with -b, for example: -b ./server"
    assert message("order", tmp_path / "names") == (2, line)
    missing = tmp_path / "missing"
    assert message("order", missing) == (3, f"hugealign: error: {missing}: No such file or directory")


@pytest.fixture(scope="module")
def ordered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("order")
    (place / "main.c").write_text("int f(int x) { return x * 3; }\nint main(void) { return f(0); }\n")
    run("gcc", "-O0", place / "main.c", "-o", place / "program", check=True)
    return place


def callgrind(place: Path, program: object) -> Path:
    """A callgrind profile of *program*, as its beginning says."""
    path = place / "callgrind.out"
    lines = f"# callgrind format\nversion: 1\ncmd: {program} args\npositions: line\nevents: Ir\n"
    path.write_text(f"{lines}\nob={program}\nfn=main\n1 10\nfn=f\n1 5\n")
    return path


def test_order_finds_the_program_that_the_profile_names(ordered: Path) -> None:
    profile = callgrind(ordered, ordered / "program")
    done = run(HUGEALIGN, "order", profile, "-o", "-")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# hugealign.order/1\n")
    first = f"hugealign: order: using {ordered}/program, the only program in the profile; use -b to choose another"
    assert done.stderr.splitlines()[0] == first
    assert "matched" in done.stderr  # the report: standard output has the order


@pytest.mark.parametrize("program", ["/nowhere/program", "", "\x1b[2J"])
def test_order_takes_no_program_that_is_not_there(ordered: Path, program: str) -> None:
    status, line = message("order", callgrind(ordered, program))
    assert status == 2
    assert line == "hugealign: error: order: which program ran? give it with -b, for example: -b ./server"


def test_dash_is_standard_output(ordered: Path, tmp_path: Path) -> None:
    """Where a file is written, and no file of that name is left behind."""
    program = ordered / "program"
    profile = callgrind(ordered, program)
    run(HUGEALIGN, "order", profile, "-b", program, "-o", tmp_path / "order", cwd=tmp_path, check=True)
    order = run(HUGEALIGN, "order", profile, "-b", program, "-o", "-", cwd=tmp_path, check=True).stdout
    assert order == (tmp_path / "order").read_text()
    # A pipe here; its name in /proc leads to no path.
    named = run(HUGEALIGN, "order", profile, "-b", program, "-o", "/dev/stdout", cwd=tmp_path, check=True).stdout
    assert named.startswith("# hugealign.order/1\n")
    report = run(HUGEALIGN, "verify", "--json", "-o", "-", "/bin/sh", cwd=tmp_path).stdout
    assert json.loads(report)["schema"].startswith("hugealign.verify/")
    assert [path.name for path in tmp_path.iterdir()] == ["order"]


def test_a_fixed_file_on_standard_output(tmp_path: Path) -> None:
    source = os.path.realpath("/usr/bin/python3")
    done = run(HUGEALIGN, "fix", source, "-o", tmp_path / "fixed")
    assert done.returncode == 0, done.stderr
    words = [str(HUGEALIGN), "fix", source, "-o", "-"]
    piped = subprocess.run(words, capture_output=True, env=environment(), cwd=tmp_path, check=True)
    assert piped.stdout == (tmp_path / "fixed").read_bytes()
    assert b"windows" in piped.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["fixed"]
    status, line = message("fix", "--json", source, "-o", "-")
    assert status == 2
    assert "-o - and --json both write to standard output" in line
    status, line = message("fix", TEXT, "-o", "-")
    assert status == 3


def test_inputs_without_a_program_can_be_fine(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert run(HUGEALIGN, "verify", "-r", tmp_path).returncode == 3
    for words in ((), ("/bin/sh",), ("--json",)):
        assert run(HUGEALIGN, "verify", "--allow-empty", "-r", tmp_path, *words).returncode == 0
    assert run(HUGEALIGN, "verify", "--allow-empty", "-r", tmp_path, tmp_path / "gone").returncode == 3
    assert run(HUGEALIGN, "verify", "--allow-empty", TEXT).returncode == 3


def test_help_loads_no_room_but_the_command_line(tmp_path: Path) -> None:
    need("strace")
    log = tmp_path / "calls"
    run("strace", "-f", "-o", log, "-e", "trace=openat,execve", HUGEALIGN, "help", check=True)
    opened = re.findall(rf"{ROOT}/hugealign/(\w+)/.*= \d+$", log.read_text(), re.MULTILINE)
    assert {"cli"} <= set(opened) <= {"cli", "io", "sh", "__pycache__"}
    assert log.read_text().count("execve(") == 2  # the shell, which becomes Python


#: Interrupts itself when the named module is imported, then runs the command as the launcher does.
_INTERRUPTED = """
import os, runpy, sys, signal
module, main = sys.argv[1:]
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = [main, "help"]
runpy.run_path(main, run_name="__main__")
"""


@pytest.mark.parametrize(
    ("module", "status"),
    [("hugealign.cli", -signal.SIGINT), ("hugealign.errors", -signal.SIGINT), ("hugealign.cli.arguments", 130)],
)
def test_an_interrupt_at_the_start_leaves_no_traceback(module: str, status: int) -> None:
    words = [sys.executable, "-ISc", _INTERRUPTED, module, str(ROOT / "hugealign" / "__main__.py")]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")
