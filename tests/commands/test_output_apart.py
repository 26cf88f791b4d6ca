"""What a command reads is never what it writes: that is a mistake in the command line, found before any work."""

import shutil
from pathlib import Path

import pytest

from tests.support import HUGEALIGN, PYTHON, run


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("verify program -o program", "-o program would replace program, which is read"),
        ("verify other program -o ./program", "-o ./program would replace program, which is read"),
        ("diff program other -o program", "-o program would replace program, which is read"),
        ("verify program -o program/", "-o program/ would replace program, which is read"),
        ("draw-map list -b second -o second", "-o second would replace second, which is read"),
        ("draw-map list -b program --order new -o new", "-o new would replace new, which is read"),
        ("order list -b program -o program", "-o program would replace program, which is read"),
        ("order list -b program -o list", "-o list would replace list, which is read"),
        ("order-trace list -b program -o list", "-o list would replace list, which is read"),
        ("profile reduce list -b program -o program", "-o program would replace program, which is read"),
        ("profile reduce list -b program -o ./list", "-o ./list would replace list, which is read"),
        ("trace -o second -- ./program", "-o second would replace ./program, which is read"),
        ("advise -o program -- ./program", "-o program would replace ./program, which is read"),
    ],
)
def test_an_output_that_is_read(words: str, message: str, tmp_path: Path) -> None:
    shutil.copy(PYTHON, tmp_path / "program")
    shutil.copy(PYTHON, tmp_path / "other")
    (tmp_path / "second").hardlink_to(tmp_path / "program")
    (tmp_path / "list").write_text("main\n")
    done = run(HUGEALIGN, *words.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"hugealign: error: {message}\n")
    assert (tmp_path / "program").read_bytes() == PYTHON.read_bytes()
    assert (tmp_path / "list").read_text() == "main\n"


@pytest.mark.parametrize("words", ["-r . -o program", "-o ./program -", "-r --format sarif . -o ./program"])
def test_an_output_that_is_found(words: str, tmp_path: Path) -> None:
    """In a directory or a list; an earlier report there is no program."""
    shutil.copy(PYTHON, tmp_path / "program")
    (tmp_path / "report").write_text("an earlier one")
    script = f"printf 'report\\nprogram\\n' | {HUGEALIGN} verify {words}"
    done = run("sh", "-c", script, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith("program, which is read\n")
    assert (tmp_path / "program").read_bytes() == PYTHON.read_bytes()
    script = script.replace("-o program", "-o report").replace("-o ./program", "-o report")
    assert run("sh", "-c", script, cwd=tmp_path).returncode != 2
    assert (tmp_path / "report").read_text() != "an earlier one"


def test_a_program_that_the_profile_names(tmp_path: Path) -> None:
    """Without -b the programs are those of callgrind's own line."""
    shutil.copy(PYTHON, tmp_path / "program")
    (tmp_path / "cg.out").write_text(f"# callgrind format\ncmd: {tmp_path}/program\nevents: Ir\nfn=Py_BytesMain\n1 5\n")
    done = run(HUGEALIGN, "profile", "reduce", "cg.out", "-o", "program", cwd=tmp_path)
    message = f"hugealign: error: -o program would replace {tmp_path}/program, which is read\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)
    assert (tmp_path / "program").read_bytes() == PYTHON.read_bytes()


def test_what_keeps_nothing_takes_all(tmp_path: Path) -> None:
    shutil.copy(PYTHON, tmp_path / "program")
    assert run(HUGEALIGN, "verify", "program", "-o", "/dev/null", cwd=tmp_path).returncode == 1
    assert run(HUGEALIGN, "verify", "/dev/null", "-o", "/dev/null", cwd=tmp_path).returncode == 3
