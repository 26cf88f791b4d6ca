"""Programs that map a copy of their own text in its place, as node --use-largepages=on and BOLT's hugify do; and large
libraries without a window.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.programs import WINDOW, Programs, held, hugealign, running

SOURCE = r"""
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
extern char big[];
int main(int c, char **v) {
    size_t window = 2 << 20, size = (size_t)atoi(v[1]) * window;
    char *from = (char *)(((uintptr_t)big + window - 1) & -window);
    char *room = mmap(0, size + window, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *to = (char *)(((uintptr_t)room + window - 1) & -window);
    madvise(to, size, c > 2 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memcpy(to, from, size);
    mprotect(to, size, PROT_READ | PROT_EXEC);
    if (mremap(to, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, from) != from) return 3;
    for (volatile char *p = from; p < big + (10 << 20); p += 4096) (void)*p;
    write(1, "x", 1);
    pause();
    return 0;
}
"""
TEXT = """
.text
.p2align 21
.globl big
big: ret
.fill 10 << 20, 1, 0x90
.section .note.GNU-stack,"",@progbits
"""


@pytest.fixture(scope="module")
def copier(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A program whose name is that of a runtime which compiles code."""
    work = tmp_path_factory.mktemp("own")
    (work / "main.c").write_text(SOURCE, encoding="ascii")
    (work / "text.s").write_text(TEXT, encoding="ascii")
    path = programs.directory / "node"
    words = ("-pie", "-fPIE", "-Wl,-z,max-page-size=0x200000", work / "main.c", work / "text.s", "-o", path)
    subprocess.run(["gcc", *words], check=True)
    assert hugealign("warm", path).returncode == 0
    with held(path):
        yield path


@contextmanager
def copying(path: Path, *words: str) -> Iterator[int]:
    with subprocess.Popen([path, *words], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout
            assert child.stdout.read(1) == b"x"
            yield child.pid
        finally:
            child.kill()


def test_copied_text_on_small_pages_counts(copier: Path) -> None:
    with copying(copier, "2") as pid:
        done = hugealign("ps", "--json", str(pid))
        (seen,) = json.loads(done.stdout)["processes"]
        assert (done.returncode, seen["met"]) == (1, False)
        own = [m for m in seen["mappings"] if not m["path"]]
        assert [(m["text_bytes"], m["windows_huge"], m["windows_possible"]) for m in own] == [(2 * WINDOW, 0, 2)]
        assert seen["windows_huge"] == seen["windows_possible"] - 2


def test_copied_text_that_is_huge_counts(copier: Path) -> None:
    with copying(copier, "4", "huge") as pid:
        done = hugealign("ps", "--json", str(pid))
        (seen,) = json.loads(done.stdout)["processes"]
        assert (done.returncode, seen["met"]) == (0, True)
        assert {m["how"] for m in seen["mappings"]} == {"file THP", "anon THP"}
        assert seen["others"] == []  # no code of a runtime
        rows = json.loads(hugealign("top", "--json").stdout)["rows"]
        (row,) = [row for row in rows if pid in row["pids"]]
        assert (row["kind"], row["windows_huge"]) == ("program", seen["windows_huge"])


def test_a_large_library_without_a_window_is_not_passed_over(programs: Programs, tmp_path: Path) -> None:
    # Less than two windows from the beginning of the file: none is whole, wherever it lies.
    (tmp_path / "big.s").write_text('.text\n.fill 2900000, 1, 0x90\n.section .note.GNU-stack,"",@progbits\n', "ascii")
    library = tmp_path / "libbig.so"
    subprocess.run(["gcc", "-shared", "-Wl,-z,max-page-size=0x1000", tmp_path / "big.s", "-o", library], check=True)
    path = programs.copy("with-libs")
    hugealign("warm", path)
    with running("env", f"LD_PRELOAD={library}", path, "5") as child:
        alone = hugealign("ps", "--wait", "10", str(child.pid))
        done = hugealign("ps", "--all", "--json", str(child.pid))
    assert alone.returncode == 0
    (seen,) = json.loads(done.stdout)["processes"]
    (large,) = [m for m in seen["mappings"] if m["path"] == str(library)]
    assert large["windows_possible"] == 0
    assert (done.returncode, seen["met"], seen["windows_huge"]) == (1, False, seen["windows_possible"])
    assert [result["code"] for result in seen["diagnoses"]] == ["text.no-window"]
