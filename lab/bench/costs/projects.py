"""Whole builds to time: 352 compiles with 32 links, and a C++ program of 8 MiB of text with debug information.

Both are generated, with the same files every time.
"""

import random
import subprocess
from collections.abc import Iterable
from pathlib import Path

from lab.bench.timing import milliseconds
from tests.support import HUGEALIGN

PROGRAMS = 32
SOURCES = 10  # of each program
UNITS = 22  # of the C++ program

_FUNCTION = """
int {name}(const char *text, struct entry *table, int count) {{
  int sum = {a};
  for (int i = 0; i < count; i++) {{
    if (strncmp(table[i].name, text, {b}) == 0)
      sum += table[i].value * {c};
    else if (table[i].value > {d})
      table[i].value -= snprintf(table[i].name, sizeof table[i].name, "%s-%d", text, sum);
    switch (table[i].value % 5) {{
    case 0: sum ^= {a}; break;
    case 1: sum += (int)strlen(table[i].name); break;
    case 2: qsort(table, (size_t)count, sizeof *table, compare); break;
    case 3: memset(table[i].name, {b}, sizeof table[i].name - 1); break;
    default: sum -= i;
    }}
  }}
  return sum;
}}
"""

_HEAD = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct entry { char name[32]; int value; };
static int compare(const void *a, const void *b) {
  return ((const struct entry *)a)->value - ((const struct entry *)b)->value;
}
"""

_UNIT = """\
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>
template <int N> struct Row {
  int key; double value; std::string name;
  bool operator<(const Row &other) const { return key < other.key; }
};
template <int N> std::size_t work(const std::string &text) {
  std::map<std::string, Row<N>> rows;
  std::unordered_map<int, std::vector<Row<N>>> groups;
  std::istringstream in(text);
  int i = N;
  for (std::string word; in >> word;) {
    Row<N> row{++i, i / 2.0, word};
    rows.insert_or_assign(word, row);
    groups[i % 7].push_back(row);
  }
  std::vector<Row<N>> all;
  for (auto &[key, row] : rows) all.push_back(row);
  std::sort(all.begin(), all.end());
  std::stable_sort(all.begin(), all.end(), [](auto &a, auto &b) { return a.value < b.value; });
  std::function<std::size_t(const Row<N> &)> size = [&](const Row<N> &row) { return row.name.size() + rows.size(); };
  std::size_t sum = 0;
  for (auto &row : all) sum += size(row);
  return sum + std::make_shared<std::vector<Row<N>>>(all)->size() + groups.size();
}
"""


def c_source(names: Iterable[str], chance: random.Random) -> str:
    """Return a source in C of functions of these *names*, each of some 300 bytes."""
    parts = [_HEAD]
    for name in names:
        a, b, c, d = (chance.randrange(1, limit) for limit in (1 << 20, 31, 97, 1 << 10))
        parts.append(_FUNCTION.format(name=name, a=a, b=b, c=c, d=d))
    return "".join(parts)


def many_programs(directory: Path) -> None:
    """Write a Makefile and its sources: 352 compiles and 32 links, 4 of them with enough text to lay out."""
    for program in range(PROGRAMS):
        choose = random.Random(program)
        calls = []
        for number in range(SOURCES):
            names = [f"f{program}_{number}_{function}" for function in range(60 if program % 8 == 0 else 8)]
            (directory / f"p{program}_{number}.c").write_text(c_source(names, choose))
            calls += names
        declarations = "".join(f"int {name}(const char *, void *, int);\n" for name in calls)
        body = " ^\n    ".join(f"{name}(argv[0], 0, argc - 1)" for name in calls)
        entry = f"{declarations}int main(int argc, char **argv) {{\n  return ({body}) == 0;\n}}\n"
        (directory / f"p{program}_main.c").write_text(entry)
    programs = [f"p{program}" for program in range(PROGRAMS)]
    rules = [f"CFLAGS = -O2 -g\nall: {' '.join(programs)}\n"]
    for name in programs:
        objects = " ".join(f"{name}_{part}.o" for part in (*range(SOURCES), "main"))
        rules.append(f"{name}: {objects}\n\t$(CC) $(CFLAGS) $^ -o $@\n")
    (directory / "Makefile").write_text("".join(rules))


def programs_in_turn(work: Path, rounds: int) -> tuple[list[float], list[float]]:
    """Build the project with and without hugealign, *rounds* times; return the milliseconds of each build.

    Programs are built one by one, with and without hugealign in turn: a whole build takes half a minute, in which a
    shared machine slows down and speeds up by more than the difference to measure.
    """
    makes = []
    for kind, compiler in (("plain", "gcc"), ("ours", f"{HUGEALIGN} gcc")):
        (work / kind).mkdir()
        many_programs(work / kind)
        makes.append(["make", "-s", "-B", "-j2", "-C", kind, f"CC={compiler}"])
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for kept in times:
            kept.append(0.0)
        for program in range(PROGRAMS):
            for side in (0, 1) if program % 2 else (1, 0):
                times[side][-1] += milliseconds([*makes[side], f"p{program}"], work)
    return times


def large_program(directory: Path) -> list[str]:
    """Compile a C++ program of more than 8 MiB of text at -O0 -g and return its objects; existing ones are kept."""
    directory.mkdir(parents=True, exist_ok=True)
    names = [f"unit{number}" for number in range(UNITS)]
    for number, name in enumerate(names):
        calls = " + ".join(f"work<{number * 12 + i}>(text)" for i in range(12))
        _write(directory / f"{name}.cpp", f"{_UNIT}std::size_t {name}(const std::string &text) {{ return {calls}; }}\n")
    declarations = "".join(f"std::size_t {name}(const std::string &);\n" for name in names)
    calls = " + ".join(f"{name}(argv[0])" for name in names)
    main = f"#include <string>\n{declarations}int main(int, char **argv) {{ return ({calls}) == 0; }}\n"
    _write(directory / "main.cpp", main)
    objects = [f"{name}.o" for name in (*names, "main")]
    subprocess.run(["make", "-s", "-j2", "CXXFLAGS=-g -O0 -std=c++17", *objects], cwd=directory, check=True)
    return objects


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
