"""The remedy is named, found by trying: `fix` for a finished file if it gives windows, another link if it does not."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hugealign.diagnosis.catalogue import REMEDIES
from tests.support import HUGEALIGN, ROOT, advised, environment, run

FIX = re.compile(r"(hugealign fix --in-place .*?) \(0 -> [1-9]\d* windows?\)")
SOURCE = 'int main(int c, char **v) { (void)v; if (c > 9) __asm__(".skip 3000000, 0x90"); return 0; }'


def program(place: Path, *options: str) -> Path:
    """A program of 3 MB of text, linked without hugealign."""
    place.parent.mkdir(exist_ok=True)
    done = subprocess.run(
        ["gcc", "-xc", "-", "-o", place, *options], input=SOURCE, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return place


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return program(tmp_path_factory.mktemp("remedies") / "it's a 'server'")


def test_a_fixed_file_is_not_told_to_link_again(finished: Path, tmp_path: Path) -> None:
    run(HUGEALIGN, "fix", "--level=shift", "--max-executable=1G", finished, "-o", tmp_path / "fixed", check=True)
    text = run(HUGEALIGN, "verify", tmp_path / "fixed").stdout
    assert "HA009" in text  # what the edit brought along
    assert "--undo restores the old file" in text
    assert "relink" not in text


def test_where_fix_refuses_the_link_is_named(tmp_path: Path) -> None:
    """Relocations in the text are for the compiler to remove."""
    (tmp_path / "more.s").write_text(".text\n.globl more\nmore: .quad main\n")
    place = program(tmp_path / "refused", "-xassembler", str(tmp_path / "more.s"), "-pie", "-Wl,-z,notext")
    refused = run(HUGEALIGN, "fix", "--dry-run", place)
    assert refused.returncode == 1
    assert refused.stderr.endswith(f"; {REMEDIES['compile-pic']}\n")
    for command in ("verify", "warm"):
        text = one_line(run(HUGEALIGN, command, place).stdout)
        assert "hugealign fix" not in text
        assert advised("relink") in text, text


def test_what_cannot_be_replaced_is_fixed_into_another_file(tmp_path: Path) -> None:
    """Contents of this one move, so a copy would have to take the place of one of its names."""
    far = ("-no-pie", "-Wl,-z,max-page-size=0x1000", "-Wl,--section-start=.text=0x605000")
    place = program(tmp_path / "one", *far)
    assert "hugealign fix --in-place" in one_line(run(HUGEALIGN, "verify", place).stdout)
    assert str(place) in run(HUGEALIGN, "fix", "--dry-run", tmp_path).stdout
    (tmp_path / "other").hardlink_to(place)
    for words in (("--dry-run",), ("--in-place",)):
        done = run(HUGEALIGN, "fix", place, *words)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.endswith(f"; {advised('one-name', 'hugealign', 'fix', '-r', place)}\n")
    assert "1 file would gain" in run(HUGEALIGN, "fix", "--dry-run", tmp_path).stdout  # with all of its names
    text = one_line(run(HUGEALIGN, "verify", place).stdout)
    assert text.count("relink with") == 1
    named = re.search(r"(hugealign fix .*) -o OUT \(0 -> 2 windows\)", text)
    assert named
    run("sh", "-c", f"{named[1]} -o {tmp_path}/fixed", check=True)
    warmed = run(HUGEALIGN, "warm", place).stdout
    named = re.search(r"run: (hugealign run --fix --file .*) -- COMMAND \(0 -> 2 windows\)", warmed)
    assert named  # nothing would use OUT
    done = run("sh", "-c", f"{named[1]} -v -- {place}", PATH=f"{ROOT}/bin:/usr/bin:/bin")
    assert f"{place}: 2 of 2 windows huge (stage)" in done.stderr
    assert "fix: hugealign" not in run(HUGEALIGN, "verify", tmp_path / "fixed").stdout


def test_what_lies_in_an_archive_cannot_be_fixed_there(finished: Path, tmp_path: Path) -> None:
    run("tar", "-C", finished.parent, "-cf", tmp_path / "a.tar", finished.name, check=True)
    text = one_line(run(HUGEALIGN, "verify", tmp_path / "a.tar").stdout)
    assert "hugealign fix" not in text
    assert advised("relink") in text


def test_names_that_would_be_options_or_move_the_cursor(finished: Path, tmp_path: Path) -> None:
    for name in ("-rf", "a\x1b[2Jb"):
        (tmp_path / name).write_bytes(finished.read_bytes())
        done = run(HUGEALIGN, "verify", "--", name, cwd=tmp_path)
        assert "\x1b" not in done.stdout
        if name == "-rf":
            assert "hugealign fix --in-place ./-rf (0 -> " in one_line(done.stdout)


def test_annotations_of_a_build_name_the_link(finished: Path) -> None:
    """What reads a diagnosis finds the same remedy as people do."""
    assert '"--in-place"' in run(HUGEALIGN, "verify", "--json", finished).stdout
    for form in ("sarif", "junit", "github", "gcc"):
        assert "--in-place" not in run(HUGEALIGN, "verify", "--format", form, finished).stdout


def test_a_large_tree_is_not_tried_file_by_file(finished: Path, tmp_path: Path) -> None:
    for number in range(52):
        shutil.copy(finished, tmp_path / f"{number}")
    text = one_line(run(HUGEALIGN, "verify", "-r", tmp_path).stdout)
    assert len(FIX.findall(text)) == 50


def test_a_running_program(finished: Path) -> None:
    """Its own file where that can be fixed; a library of it where only that has windows."""
    library = finished.parent / "libbig.so"
    source = 'void f(void) { __asm__(".skip 3000000, 0x90"); }'
    subprocess.run(["gcc", "-shared", "-fPIC", "-xc", "-", "-o", library], input=source, text=True, check=True)
    small = finished.parent / "small"
    source = (
        "#include <dlfcn.h>\n#include <unistd.h>\n"
        'int main(int c, char **v) { dlopen(v[c - 1], 2); if (write(1, "r", 1) == 1) sleep(60); }'
    )
    subprocess.run(["gcc", "-xc", "-", "-o", small], input=source, text=True, check=True)
    with subprocess.Popen([small, library], env=environment(), stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout
            assert running.stdout.read(1) == b"r"
            text = run(HUGEALIGN, "ps", running.pid).stdout
            assert "also: libbig.so, 2.9 MiB: no window can be huge\n" in text
            start = advised("start", "hugealign", "run", "--fix", "--file", library)
            assert f"{start} -- {small} [ARG]... (0 -> " in text, text
            assert start in run(HUGEALIGN, "ps", "--all", running.pid).stdout  # libc's text can be huge, too
        finally:
            running.kill()


def test_small_programs_get_no_hint() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        try:
            assert running.stdin
            assert running.stdout
            os.write(running.stdin.fileno(), b"r")
            assert running.stdout.read(1) == b"r"  # its libraries are there
            assert "also: " not in run(HUGEALIGN, "ps", running.pid).stdout
        finally:
            running.kill()


def test_large_data_do_not_make_a_program_large(tmp_path: Path) -> None:
    (tmp_path / "small.c").write_text("int main(void) { return 0; }")
    (tmp_path / "data.s").write_text('.section .rodata\n.fill 8 << 20, 1, 7\n.section .note.GNU-stack,"",@progbits\n')
    run("gcc", tmp_path / "small.c", tmp_path / "data.s", "-o", tmp_path / "data", check=True)
    assert run(HUGEALIGN, "fix", "--dry-run", tmp_path / "data").returncode == 1
    assert run(HUGEALIGN, "fix", "--dry-run", tmp_path / "data", HUGEALIGN_MIN_TEXT="100").returncode == 0


def test_a_refusal_names_the_link_that_can(tmp_path: Path) -> None:
    (tmp_path / "m.c").write_text('int main(void) { __asm__("jmp 1f\\n .skip 900000, 0x90\\n 1:"); return 0; }')
    run("gcc", "-no-pie", tmp_path / "m.c", "-o", tmp_path / "m", check=True)
    done = run(HUGEALIGN, "fix", "--dry-run", tmp_path / "m")
    assert f"; {advised('relink')}" in done.stderr
    run(HUGEALIGN, "gcc", tmp_path / "m.c", "-o", tmp_path / "again", check=True)
    assert "in 1 window" in run(HUGEALIGN, "verify", tmp_path / "again", check=True).stdout
