"""Change the modules that guard users at places drawn by chance, and count the changes that no test notices.

``make mutants`` installs cosmic-ray, whose operators make the changes, and runs this.  cosmic-ray's own session has one
test command for all modules, draws nothing, and skips lines by their numbers alone: two tables and a draw are what it
lacks.  All runs in a copy of the checkout.
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cosmic_ray.commands.init import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.testing import run_tests
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome

if TYPE_CHECKING:
    from cosmic_ray.work_item import MutationSpec

_ROOT = Path(__file__).parents[1]
_LEAST = 90  # per cent
_SLOWER = 3  # times as long as without a change, a test counts as failed: what waits for ever has been noticed

#: The tests of each module, those that take least first.
TESTS = {
    "hugealign/elf/guards.py": "tests/unit/elf/test_guards.py",
    "hugealign/link/check.py": "tests/unit/link/test_check.py",
    "hugealign/io/replacing.py": "tests/unit/io/test_replacing.py",
    "hugealign/run/store_mount.py": "tests/unit/run/test_store.py",
    "hugealign/run/store.py": "tests/unit/run/test_store.py tests/unit/run/test_copies.py",
    "hugealign/services/dropins.py": "tests/unit/services/test_dropins.py",
    "hugealign/services/enable.py": "tests/unit/services/test_enable.py",
    "hugealign/services/files.py": "tests/unit/services/test_files.py",
    "hugealign/services/mounting.py": "tests/unit/services/test_mounting.py",
    "hugealign/services/oci.py": "tests/unit/services/test_oci.py tests/commands/test_oci_hook.py",
    "hugealign/services/programs.py": "tests/unit/services/test_programs.py",
    "hugealign/services/view.py": "tests/unit/services/test_view.py",
    "hugealign/fixing/separation/check.py": "tests/unit/fixing/separation/test_check.py",
    "hugealign/fixing/separation/crossings.py": "tests/unit/fixing/separation/test_crossings.py",
}

#: Changes that cannot be observed: the module, the line, the operator (patterns), and why.
SAME = [
    (
        "",
        "",
        "_Eq_Is$|_NotEq_IsNot$|_Is_Eq$|_IsNot_NotEq$",
        "what is compared by identity in place of equality is one object if it is equal: None, small numbers, names",
    ),
    ("", "TYPE_CHECKING", "", "imports for the type checker alone"),
    ("", "strict=True", "ReplaceTrueWithFalse", "both are of one length; strict= says so to the reader"),
    (
        "",
        r"^_\w*LIMIT = |^_(MOST|LONGEST|RATE|SECONDS)\w*(, _RATE)? = |^_ATTEMPTS = |^SECONDS = ",
        "",
        "half or twice the limit is as good; that it is obeyed, tests see at another value",
    ),
    (
        "",
        r"os\.O_|stat\.S_",
        "BitOr_(Add|BitXor)$",
        "bits that differ: their sum, their difference and their union are the same",
    ),
    ("run/store", "O_TMPFILE", "NumberReplacer", "the copy has another mode before it has a name"),
    ("link/check", r"not whole\[0\]", "NumberReplacer", "an object without a name begins at 0, a member does not"),
    ("", r"@dataclass\(frozen", "", "mypy finds what assigns to a field or has another one; slots save memory"),
    ("separation/check", r"changed\[0\]", "NumberReplacer", "segments do not overlap: one has it"),
    ("separation/check", "not 0 < place - group|1 << 64", "NumberReplacer", "how many words are read at once"),
    ("separation/crossings", r"min\(256", "NumberReplacer", "how much of a name is read, to know or to print it"),
    ("separation/crossings", "most - least >=", "BitXor$", "ends a search early, whose result would be the same"),
    ("", "^_PIECE = ", "", "how much is read at once, which tests see at another value"),
    ("", r"unpack_from\(.*\)\[0\]", "NumberReplacer", "the last one of one value is the first"),
    ("", r"except \(\*", "ExceptionReplacer", "no change: cosmic-ray 8.7 fails at a star"),
    ("separation/check", r"24 << 16", "NumberReplacer", "how many symbols and relocations are read at once"),
    ("separation/crossings", r"return -1, False", "NumberReplacer", "any number in front of the file"),
]


class Mutant(NamedTuple):
    """A change of a module, with the line that it changes."""

    spec: "MutationSpec"
    line: str

    def __str__(self) -> str:
        operator = self.spec.operator_name.partition("/")[2]
        return (
            f"{self.spec.module_path}:{self.spec.start_pos[0]}: {operator} {self.spec.occurrence}: {self.line.strip()}"
        )


def main() -> None:
    """Print the mutants that survive; exit with 1 if too many do."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modules", default="", help="a regular expression")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hugealign-mutants-") as directory:
        _copy(Path(directory))
        os.chdir(directory)
        # Without hypothesis and xdist, pytest starts in a third of the time.
        os.environ |= {"PYTHONPATH": directory, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        modules = [module for module in TESTS if re.search(options.modules, module)]
        sys.exit(_judge(_drawn(modules, options.count, options.seed), options.seed))


def _copy(place: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=_ROOT,
        check=True,
        stdout=subprocess.PIPE,
    )
    for name in os.fsdecode(listed.stdout).split("\0")[:-1]:
        if os.path.lexists(_ROOT / name):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(_ROOT / name, place / name, follow_symlinks=False)


def _drawn(modules: list[str], count: int, seed: int) -> list[Mutant]:
    """Return *count* mutants: each place has the same chance, however many changes there are for it."""
    draw = random.Random(seed)  # to be repeated
    places: dict[tuple[str, tuple[int, int], tuple[int, int]], list[Mutant]] = {}
    for mutant in _all(modules):
        spec = mutant.spec
        places.setdefault((str(spec.module_path), spec.start_pos, spec.end_pos), []).append(mutant)
    chosen = draw.sample(sorted(places), min(count, len(places)))
    return [draw.choice(places[place]) for place in sorted(chosen)]


def _all(modules: list[str]) -> Iterator[Mutant]:
    """Yield all mutants, but for those that change nothing."""
    with use_db(str(Path(tempfile.gettempdir(), f"mutants-{os.getpid()}")), WorkDB.Mode.create) as session:
        init(map(Path, modules), session, {})
        specs = [spec for item in session.work_items for spec in item.mutations]
        Path(session.name()).unlink()
    for module in modules:
        text = Path(module).read_text(encoding="utf-8")
        lines, skipped = text.splitlines(), _annotations(text)
        for spec in specs:
            if str(spec.module_path) == module and spec.start_pos not in skipped:
                line = lines[spec.start_pos[0] - 1]
                place = (module, line, spec.operator_name)
                if not any(all(map(re.search, patterns, place)) for *patterns, _ in SAME):
                    yield Mutant(spec, line)


def _annotations(text: str) -> set[tuple[int, int]]:
    """Return the places within annotations of types, which nothing reads when the program runs."""
    places = set()
    for node in ast.walk(ast.parse(text)):
        for name in ("annotation", "returns"):
            if (top := getattr(node, name, None)) and top.end_lineno == top.lineno:
                places |= {(top.lineno, column) for column in range(top.col_offset, top.end_col_offset)}
    return places


def _judge(mutants: list[Mutant], seed: int) -> int:
    began, survivors = time.monotonic(), []
    limits: dict[str, float] = {}
    for number, mutant in enumerate(mutants, 1):
        module = str(mutant.spec.module_path)
        command = (
            f"{sys.executable} -m pytest -x -q -p no:cacheprovider -p pytest_timeout"
            f" -m 'not matrix and not kernels' {TESTS[module]}"
        )
        if module not in limits:
            limits[module] = _unchanged(command)
        result = mutate_and_test([mutant.spec], command, limits[module])
        if result.test_outcome == TestOutcome.INCOMPETENT or result.diff is None:
            sys.exit(f"{mutant}: not a mutant: {result.output}")
        if result.test_outcome == TestOutcome.SURVIVED:
            survivors.append(mutant)
            changed = [line for line in result.diff.splitlines() if re.match(r"[-+](?![-+])", line)]
            print(f"survived: {mutant}", *changed, sep="\n    ", flush=True)
        if number % 20 == 0:
            print(f"{number} of {len(mutants)}: {len(survivors)} survived", flush=True)
    killed = len(mutants) - len(survivors)
    share = 100 * killed / max(len(mutants), 1)
    print(f"seed {seed}: {len(mutants)} mutants, {killed} killed, {share:.1f} %, {time.monotonic() - began:.0f} s")
    return int(share < _LEAST)


def _unchanged(command: str) -> float:
    """Return after how many seconds the tests of *command* count as failed; they pass without a change."""
    began = time.monotonic()
    outcome, output = run_tests(command, None)
    if outcome != TestOutcome.SURVIVED:
        sys.exit(f"{command}: fails without a change:\n{output}")
    return _SLOWER * (time.monotonic() - began) + 10


if __name__ == "__main__":
    main()
