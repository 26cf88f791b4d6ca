"""The README's tour, from ``perf record`` to a running server: its commands, as they stand there, on a small server."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests import spread
from tests.live.programs import WINDOW, Programs
from tests.support import ROOT, environment, run

FUNCTIONS, EVERY = 1600, 10  # of 3 KiB each; every so many runs, all over the text
# With --benchmark it works for two seconds and ends; without, it has worked a little, and serves until it is killed.
_MAIN = """\
#include <string.h>
#include <time.h>
#include <unistd.h>
{declarations}
static unsigned (*const table[])(unsigned) = {{ {names} }};
int main(int argc, char **argv) {{
    unsigned sum = 0, count = sizeof table / sizeof *table;
    time_t end = time(NULL) + 3;
    int benchmark = argc > 1 && strcmp(argv[1], "--benchmark") == 0;
    do
        for (unsigned i = 0; i < 100 * count; i++) sum = table[i % count](sum);
    while (benchmark && time(NULL) < end);
    if (!benchmark && write(1, "ready\\n", 6) == 6) pause();
    return sum == 1;
}}
"""
# With frame pointers, as `perf record -g` needs them; without, `order` may say that they are not there.
_MAKEFILE = """\
CFLAGS = -O1 -fno-omit-frame-pointer
server: main.o functions.o
	$(CC) -o $@ $^
clean:
	rm -f server *.o
"""


def tour() -> list[str]:
    """The commands of the README's tour."""
    section = (ROOT / "README.md").read_text().split("### 4. A profile\n", 1)[1].split("\n### ", 1)[0]
    block = re.findall(r"(?ms)^```sh\n(.*?)^```$", section)[0]
    return [line for line in block.splitlines() if line.strip()]


def sources(directory: Path) -> None:
    """Write the small server."""
    hot = range(0, FUNCTIONS, EVERY)
    (directory / "functions.c").write_text(spread.functions(FUNCTIONS, 3000))
    (directory / "main.c").write_text(spread.caller(_MAIN, hot))
    (directory / "Makefile").write_text(_MAKEFILE)


def text_and_functions(path: Path) -> tuple[int, dict[str, int]]:
    """Where the text segment begins, and where the functions are, by pyelftools."""
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        start = min(s["p_vaddr"] for s in elf.iter_segments() if s["p_type"] == "PT_LOAD" and s["p_flags"] & 1)
        table = elf.get_section_by_name(".symtab")
        assert table
        return start, {s.name: s["st_value"] for s in table.iter_symbols() if s["st_info"]["type"] == "STT_FUNC"}


def huge(smaps: str, path: Path) -> tuple[int, int]:
    """KiB of the text of *path* that PMDs map, and all of it."""
    (block,) = re.findall(rf"(?m)^\S+ r-xp .* {re.escape(str(path))}\n(?:[A-Z].*\n)*", smaps)
    result = {key: int(value) for key, value in re.findall(r"(?m)^(\w+): +(\d+) kB", block)}
    return result["FilePmdMapped"] + result["ShmemPmdMapped"], result["Size"]


@pytest.mark.parametrize(
    "entries", [pytest.param(None, marks=pytest.mark.matrix), 1], ids=["this-processor", "one-window"]
)
def test_every_command_of_the_tour(programs: Programs, entries: int | None) -> None:
    if shutil.which("perf") is None:
        pytest.skip("no perf (Debian: linux-perf)")
    directory = programs.directory / f"tour-{entries}"
    directory.mkdir()
    refused = run("perf", "record", "-e", "cpu-clock", "-o", directory / "perf.data", "true").stderr
    if "No permission" in refused or "not supported" in refused:
        pytest.skip(f"perf may not record here: {refused.strip().splitlines()[0]}")
    sources(directory)
    run("make", "CC=gcc", cwd=directory, check=True)
    start, functions = text_and_functions(directory / "server")
    hot = {f"f{number}" for number in range(0, FUNCTIONS, EVERY)}
    assert max(functions[name] for name in hot) - start > 2 * WINDOW  # they are everywhere

    lines = tour()
    commands = "perf record", "hugealign order", "--profile", "hugealign verify", "hugealign warm", "hugealign ps"
    assert all(any(command in line for line in lines) for command in commands)
    if entries:
        lines = [line.replace("hugealign order ", f"hugealign order --windows {entries} ") for line in lines]
    script = ["trap 'kill $server' EXIT", "server="]
    for line in lines:
        # Status 1 of ps: windows that no process has touched, which is what becomes of those that are not hot.
        accept = "[ $? = 1 ]" if line.startswith("hugealign ps") else "exit 99"
        command = line.partition("  #")[0].rstrip()
        script.append(f"{command} || {accept}")
        if command.endswith("&"):
            # The one thing that a reader sees and a script does not: that the server is up.
            script[-1] = f"{command[:-1]} >said &"
            script += ["server=$!", "for i in $(seq 300); do grep -qs ready said && break; sleep 0.1; done"]
            script += ["grep -q ready said || exit 98"]
    script += ["cat /proc/$server/smaps >smaps"]
    with (directory / "message").open("w") as message:
        words = ["bash", "-c", "\n".join(script)]
        done = subprocess.run(words, cwd=directory, stdout=message, stderr=message, check=False, env=environment())
    text = (directory / "message").read_text()
    assert done.returncode == 0, text
    assert "warning" not in text

    windows = int(re.findall(r"(?m)^# windows: (\d+)$", (directory / "server.order").read_text())[0])
    assert entries is None or windows == entries
    start, functions = text_and_functions(directory / "server")
    assert start % WINDOW == 0
    sampled = hot & set(re.findall(r"(?m)^(f\d+)\tsamples=", (directory / "server.order").read_text()))
    assert len(sampled) > len(hot) // 2
    # What ran lies in the first window, which the kernel maps by a PMD; nothing else need be touched.
    assert max(functions[name] for name in sampled) - start < WINDOW
    assert re.search(r"(?m)^ +#[-#.]{2}$", text), text
    assert f"{windows} of {windows} windows huge" in text
    mapped, size = huge((directory / "smaps").read_text(), directory / "server")
    assert WINDOW >> 10 <= mapped <= size == 3 * WINDOW >> 10
    if entries:
        assert mapped == WINDOW >> 10  # the others are not warm, and need not be
