"""The map: how heat spreads over windows, what is printed of it, and what hostile names can do to that."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from hugealign.diagnosis import documents
from hugealign.elf.symbols import read_functions
from hugealign.errors import HugealignError
from hugealign.map import report
from tests.commands.profiles import SAMPLES
from tests.documents import check
from tests.support import HUGEALIGN, run, worded
from tests.unit.map.test_map import drawn, matched

# The command.


def test_command(prog: Path) -> None:
    words = [HUGEALIGN, "map", SAMPLES / "prog.fdata", "-b", prog]
    done = run(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{prog}: ")
    assert "as linked\n" in done.stdout
    assert "█" in done.stdout
    done = run(*words, "--json", check=True)
    document = check(done.stdout)
    assert document["samples"]["matched"] == round(sum(w["samples"] for w in document["layouts"][1]["windows"]))


def test_order_file(prog: Path, tmp_path: Path) -> None:
    """The order of the file is shown, with its number of windows; a list of names has no windows."""
    order = tmp_path / "order"
    order.write_text("# hugealign.order/1\n# windows: 2\nother\nmain\n")
    words = [HUGEALIGN, "map", SAMPLES / "prog.fdata", "-b", prog, "--order", order, "--json"]
    document = check(run(*words, "--page-size=64K", check=True).stdout)
    assert (document["order"], document["huge"]) == (str(order), 2)
    functions = read_functions(prog)
    lead = functions.lead // document["cell_size"]
    (first, *_) = functions.by_name["other"]
    cells = document["layouts"][1]["windows"][0]["cells"]
    assert not any(cells[: max(lead - 1, 0)])
    assert document["layouts"][1]["windows"][0]["hottest"]
    order.write_text("# hugealign.order/1\n# windows: 0\nother\nmain\n")
    document = check(run(*words, "--page-size=64K", check=True).stdout)
    assert document["huge"] == 0
    order.write_text("other\nmain\n")
    assert run(*words).returncode == 3
    assert functions.names[first] == "other"


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["absent"], 3, "absent: No such file"),
        (["foreign"], 1, "no sample in the profile is in prog"),
        (["half"], 1, "only 40% of the samples"),
        (["list", "--order", "absent"], 3, "absent: No such file"),
        (["list", "--order", "another"], 3, "is for another build"),
        (["list", "--page-size", "3M"], 2, "--page-size"),
    ],
)
def test_what_the_command_refuses(words: list[str], status: int, message: str, prog: Path) -> None:
    (prog.parent / "another").write_text("# hugealign.order/1\nx\ny\n")
    for name, text in (("list", "main\n"), ("foreign", "x 6\ny 3\n"), ("half", "hot 4\nforeign 6\n")):
        (prog.parent / name).write_text(text)
    done = run(HUGEALIGN, "map", *words, "-b", "prog", cwd=prog.parent)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["list", "absent", "object.o"])
def test_what_is_no_program(name: str, prog: Path) -> None:
    (prog.parent / "list").write_text("main\n")
    shutil.copy(prog.parent / "main.o", prog.parent / "object.o")
    done = run(HUGEALIGN, "map", "list", "-b", name, cwd=prog.parent)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert done.stderr.startswith(f"hugealign: error: {name}: ")


def test_a_pipe_is_no_program(prog: Path) -> None:
    (prog.parent / "list").write_text("main\n")
    os.mkfifo(prog.parent / "pipe")
    for command in ("map", "order"):
        done = run(HUGEALIGN, command, "list", "-b", "pipe", cwd=prog.parent)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr == f"hugealign: error: pipe: {worded('file.special')}\n"


def test_damaged_programs(prog: Path, tmp_path: Path) -> None:
    """Headers and symbols with bytes of chance in them: a map or one error, in bounded time, and nothing else."""
    whole = prog.read_bytes()
    shown = 0
    for case in range(200):
        chance = random.Random(case)
        data = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            near = chance.choice((range(64, 64 + 13 * 56), range(len(data) - 1984, len(data)), range(len(data))))
            value = chance.choice((0, 1, 0x7F, 0xFF, chance.randrange(256)))
            data[chance.choice(near)] = value
        path = tmp_path / "damaged"
        path.write_bytes(data)
        try:
            functions = read_functions(path)
            made = drawn(functions, matched({index: index + 1 for index in range(len(functions))}))
        except HugealignError as error:
            assert str(error).isprintable()  # noqa: PT017 - or none is raised
            continue
        shown += 1
        if not case % 8:  # takes longer than all the rest
            check(documents.text(made, names=str))
        assert report.text(made)
    assert 40 < shown < 200


def test_a_file_that_was_linked_with_an_order(tmp_path: Path, prog: Path) -> None:
    """What the note says is in the document, and the first strip is the file as it is."""
    order = tmp_path / "order"
    run(HUGEALIGN, "order", SAMPLES / "prog.fdata", "-b", prog, "-o", order, check=True)
    words = ["gcc", "main.o", "other.o", "-o", tmp_path / "ordered"]
    done = run(HUGEALIGN, *words, cwd=prog.parent, HUGEALIGN_PROFILE=str(order), HUGEALIGN_MIN_TEXT="0")
    assert done.returncode == 0, done.stderr
    words = ["map", SAMPLES / "prog.fdata", "-b", tmp_path / "ordered", "--json"]
    document = check(run(HUGEALIGN, *words, check=True).stdout)
    assert document["layouts"][0]["name"] == "as linked, with an order"
    assert document["note"]["hot_start"] < document["note"]["hot_end"]
    first = document["layouts"][0]["windows"][0]
    assert first["address"] <= document["note"]["hot_start"] < first["address"] + document["page_size"]
    assert subprocess.run([tmp_path / "ordered"], check=False, stdout=subprocess.DEVNULL).returncode >= 0
