"""Manual pages and completions: made of the parsers that there are, clean, and tried in the real shells."""

import importlib.util
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hugealign.cli import COMMANDS
from hugealign.diagnosis.catalogue import rules
from hugealign.verification.configuration import KEYS
from tests.support import HUGEALIGN, ROOT, environment, run

SHARE = ROOT / "share"


def needs(tool: str) -> str:
    result = shutil.which(tool)
    if not result:
        pytest.skip(f"{tool} is not installed")
    return result


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    directory = tmp_path_factory.mktemp("man") / "man1"
    done = run(sys.executable, "-I", "-S", ROOT / "packaging" / "man.py", directory)
    assert (done.returncode, done.stderr) == (0, "")
    return sorted(directory.iterdir())


def test_completions_are_of_these_parsers() -> None:
    if not importlib.util.find_spec("shtab"):
        pytest.skip("shtab is not installed")
    done = run(sys.executable, ROOT / "packaging" / "completions.py", "--check")
    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_has_a_page(pages: list[Path]) -> None:
    names = {page.name for page in pages}
    launchers = {f"{file.name}.1" for file in (ROOT / "bin").iterdir() if " " not in file.name}
    assert names == {*(f"hugealign-{name}.1" for name in COMMANDS), *launchers}


def test_mandoc_finds_nothing(pages: list[Path]) -> None:
    done = run(needs("mandoc"), "-T", "lint", *pages, cwd=pages[0].parents[1])
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_man_warns_of_nothing(pages: list[Path]) -> None:
    needs("groff")
    for page in pages:
        words = ("--warnings", "-E", "UTF-8", "-l", "-Tutf8", page)
        done = run(needs("man"), *words, cwd=pages[0].parents[1], MANWIDTH="80")
        assert done.stderr == ""
        assert "N\bNA\bAM\bME\bE" in done.stdout


def test_examples_and_statuses_have_sections(pages: list[Path]) -> None:
    needs("mandoc")
    text = run("mandoc", "-T", "ascii", pages[0].with_name("hugealign-verify.1")).stdout.replace("\b", "")
    for title in ("EXAMPLES", "EXIT STATUS"):
        assert "".join(f"{c}{c}" if c != " " else c for c in title) in text


def test_each_synopsis_has_a_line(pages: list[Path]) -> None:
    for name in COMMANDS:
        page = pages[0].with_name(f"hugealign-{name}.1").read_text()
        synopsis = page.partition(".SH SYNOPSIS\n")[2].partition(".SH DESCRIPTION")[0]
        usage = run(HUGEALIGN, name, "--help").stdout.partition("\n\n")[0]
        # Each begins with the command's name, which stands nowhere else.
        assert synopsis.count(".br\n") == usage.count(f"hugealign {name} ") - 1, name


def test_help_and_pages_lead_to_nothing_that_is_not_installed(pages: list[Path]) -> None:
    texts = [page.read_text() for page in pages]
    texts += [run(HUGEALIGN, *words, "--help").stdout for words in ([], *([name] for name in COMMANDS))]
    assert not [text for text in texts if re.search(r"docs/|\.md\b", text)]
    page = pages[0].with_name("hugealign-verify.1").read_text().replace("\\-", "-")
    assert all(key in page.partition(".SH CONFIGURATION")[2] for key in KEYS)


#: What is typed, and what has to be offered.
TYPED = {
    "hugealign ver": {"verify"},
    "hugealign --prof": {"--profile="},
    "hugealign --page": {"--page-size="},
    "hugealign verify --kern": {"--kernels"},
    "hugealign verify --format sa": {"sarif"},
    "hugealign explain HA00": {name for name in rules() if name.startswith("HA00")},
    "hugealign verify --ignore HA01": {name for name in rules() if name.startswith("HA01")},
    "hugealign order --cpu skyl": {"skylake"},
    "hugealign expl": {"explain"},
    "hugealign plugin buil": {"build"},
    "hugealign verify a-ser": {"a-server"},
    "hugealign run -- hugealign-completion-te": {"hugealign-completion-test"},
    "hugealign ps a-runn": {"a-runner"},
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a file, a program on PATH and a process, all of which have to be completed."""
    (tmp_path / "a-server").touch()
    program = tmp_path / "bin" / "hugealign-completion-test"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    shutil.copy(needs("sleep"), tmp_path / "bin" / "a-runner")
    return tmp_path


@pytest.fixture
def process(place: Path) -> object:
    with subprocess.Popen([place / "bin" / "a-runner", "100"]) as running:
        yield running
        running.kill()


def env_of(place: Path) -> dict[str, str]:
    return environment(HOME=str(place), TERM="dumb") | {"PATH": f"{place}/bin:{os.environ['PATH']}"}


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("typed", TYPED)
def test_bash(place: Path, typed: str) -> None:
    script = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _hugealign; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    file = SHARE / "bash-completion/completions/hugealign"
    done = run(needs("bash"), "--norc", "-c", script, "bash", file, *typed.split(" "), cwd=place, env=env_of(place))
    assert TYPED[typed] <= {word.strip() for word in done.stdout.splitlines()}, done.stderr


def test_names_of_processes_are_no_code(place: Path) -> None:
    """Any user gives a process its name, and root completes it."""
    (place / "bin" / "$(>taken)").hardlink_to(place / "bin" / "a-runner")
    script = 'source "$1"; COMP_WORDS=(hugealign ps ""); COMP_CWORD=2; _hugealign; printf "%s\\n" "${COMPREPLY[@]}"'
    file = SHARE / "bash-completion/completions/hugealign"
    with subprocess.Popen([place / "bin" / "$(>taken)", "100"]) as running:
        done = run(needs("bash"), "--norc", "-c", script, "bash", file, cwd=place, env=env_of(place))
        running.kill()
    assert str(running.pid) in done.stdout.splitlines()
    assert "taken" not in done.stdout
    assert not (place / "taken").exists()


def test_bash_completes_a_compiler_as_itself(tmp_path: Path) -> None:
    """By bash-completion, as a user has it: what stands behind the compiler is completed as behind the bare one."""
    if not Path("/usr/share/bash-completion/bash_completion").exists():
        pytest.skip("bash-completion is not installed")
    script = """
        source /usr/share/bash-completion/bash_completion; source "$1"
        _mine() { COMPREPLY=("of ${COMP_WORDS[0]}"); }; complete -F _mine gcc
        COMP_LINE='hugealign gcc -f'; COMP_POINT=${#COMP_LINE}; COMP_WORDS=(hugealign gcc -f); COMP_CWORD=2
        _hugealign 2>/dev/null; printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = run("bash", "--norc", "-c", script, "bash", SHARE / "bash-completion/completions/hugealign", cwd=tmp_path)
    assert done.stdout == "of gcc\n"


@pytest.mark.usefixtures("process")
def test_fish(place: Path) -> None:
    file = SHARE / "fish/vendor_completions.d/hugealign.fish"
    script = 'source "$argv[1]"; for typed in $argv[2..]; complete -C $typed; echo "end"; end'
    done = run(needs("fish"), "--no-config", "-c", script, file, *TYPED, cwd=place, env=env_of(place))
    offered = [part.splitlines() for part in done.stdout.split("end\n")]
    for wanted, lines in zip(TYPED.values(), offered, strict=False):
        assert wanted <= {line.partition("\t")[0] for line in lines}, done.stderr
    assert len(offered) == len(TYPED) + 1


@pytest.mark.usefixtures("process")
def test_zsh(place: Path) -> None:
    """In a terminal, since completion works nowhere else there: what is typed, a tab, and what comes back."""
    zsh = needs("zsh")
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(place)
        os.execve(zsh, ["zsh", "-f", "-i"], env_of(place) | {"COLUMNS": "200", "LINES": "100"})  # noqa: S606
    try:
        setup = f"PS1='>'; fpath=({SHARE}/zsh/site-functions $fpath); autoload -U compinit; compinit -u -D; LISTMAX=999"
        message(terminal, f"{setup}; setopt nobeep; print -r -- rea''dy\n", "ready\r\n")
        for typed, wanted in TYPED.items():
            text = message(terminal, f"{typed}\t", *wanted)
            for word in wanted:
                assert word in text, (typed, text)
            message(terminal, "\x15print -r -- do''ne\n", "done\r\n")
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


def message(terminal: int, typed: str, *awaited: str) -> str:
    """Type, and return what the terminal shows until all that is *awaited* is there, or a minute has gone."""
    os.write(terminal, typed.encode())
    shown, end = "", time.monotonic() + 60
    while time.monotonic() < end and not all(word in shown for word in awaited):
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 65536).decode(errors="replace")
    return shown
