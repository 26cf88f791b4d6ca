"""Loads and stores, traced and simulated: a program whose misses are known beforehand."""

import subprocess
from pathlib import Path

import pytest

from hugealign.errors import HugealignError
from hugealign_lab.data import HUGE
from hugealign_lab.simulation import DATA_CPUS
from lab.bench.data import measure
from tests.build.manual import emulates

PAGES, ROUNDS = 1280, 10  # 5 MiB of constants, ten times over: more pages than any first level has entries
_SOURCE = """\
__attribute__((used)) static const char table[5 << 20] = {1};
int main(void) {
  const volatile char *p = table;
  int sum = 0;
  for (int round = 0; round < 10; round++)
    for (long at = 0; at < 5 << 20; at += 4096) sum += p[at];
  return sum != 10;
}
"""


def test_walk_through_constants(tmp_path: Path) -> None:
    if not emulates():
        pytest.skip("qemu-x86_64 is missing, or takes no plugins")
    (tmp_path / "walk.c").write_text(_SOURCE)
    subprocess.run(("gcc", "-O1", "walk.c", "-o", "walk"), cwd=tmp_path, check=True)
    try:
        found = measure([str(tmp_path / "walk")], tmp_path)
    except (HugealignError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this QEMU takes no plugins: {error}")
    few = 150  # what start and end of a process touch
    for model in DATA_CPUS:
        small, text, data, both = (found.row(huge, model) for huge in HUGE)
        assert PAGES * ROUNDS <= small.data_misses <= PAGES * ROUNDS + few
        assert PAGES <= small.data_walks <= PAGES * ROUNDS + few
        assert data.data_misses <= few
        assert data.data_walks <= few
        assert (text.data_misses, both.data_misses) == (small.data_misses, data.data_misses)  # nothing to do with code
        assert text.code_misses < small.code_misses == data.code_misses
    # Skylake's second level, which code shares, holds all of them; so does that of Zen 5; that of the Neoverse does not
    # quite, and code takes a few of its ways.
    assert found.row("none", "skylake").data_walks < PAGES + few
    assert found.rodata >= 5 << 20
