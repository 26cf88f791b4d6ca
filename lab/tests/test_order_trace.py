"""``hugealign order-trace``: heat and calls from a trace, and the number of windows by simulation."""

import json
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hugealign import orderfile
from hugealign.elf.symbols import Functions, read_functions
from hugealign.ordering.problem import Problem, of_sorted
from hugealign.ordering.sorting import Sorted
from hugealign.ordering.windows import WindowRoom
from hugealign.profile.match import Matched
from hugealign_lab import tracefile
from hugealign_lab.files import describe
from hugealign_lab.placement import WINDOW, ordered
from hugealign_lab.tracefile import open_trace
from lab.tests.traces import write_trace
from tests.commands.far import COUNT, FAR, program
from tests.documents import check
from tests.support import HUGEALIGN, run

__all__ = ["program"]  # a fixture


# Where the order puts functions: the windows that are counted, and the layout that is simulated.


@settings(deadline=None)
@given(data=st.data(), aligned=st.sampled_from([1, 2, 4, 8, 16]))
def test_windows_and_simulation_agree(
    data: st.DataObject, aligned: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sizes = data.draw(st.lists(st.integers(1, WINDOW), min_size=1, max_size=12))
    starts, at = [], 0x1000
    for size in sizes:
        at += -at % aligned
        starts.append(at)
        at += size
    functions = Functions(starts, sizes, [f"f{n}" for n in range(len(sizes))], [""] * len(sizes), {}, text=at - 0x1000)
    ran = data.draw(st.permutations(range(len(sizes))))[: data.draw(st.integers(1, len(sizes)))]
    path = tmp_path_factory.mktemp("agree") / "t"
    trace = open_trace(str(write_trace(path, [(starts[index], 1, 1, 1) for index in ran], [[[1]]])))
    result = ordered(trace, 1, "order", functions, ran)
    plan = of_sorted(Problem(Matched(dict.fromkeys(ran, 1)), functions, WindowRoom(WINDOW, 9)), Sorted(ran))
    addresses = list(result.addresses)[1:]
    assert [placed.window for placed in plan.placed] == [address // WINDOW - result.first + 1 for address in addresses]
    assert sum(window.used for window in plan.windows) == addresses[-1] + sizes[ran[-1]] - result.first * WINDOW


# The command, with a program of several windows and a trace made by hand.


def _traced(program: Path, path: Path, order: Sequence[int]) -> Path:
    """Write a trace in which the first block of these functions runs."""
    starts = {f"f{n}": 0 for n in range(COUNT)}
    functions = read_functions(program)
    starts.update({name: functions.starts[indices[0]] for name, indices in functions.by_name.items()})
    with path.open("wb") as out:
        out.write(tracefile.MAGIC)
        numbers = struct.pack(f"<{len(order)}I", *(n + 1 for n in order))
        tracefile.write_chunk(out, 1, tracefile.LAST | tracefile.RAW, len(order), numbers)
        files = (tracefile.File(""), describe(str(program)))
        result = tracefile.Description(("program",), "x86_64", files, 1, len(order))
        table = b"".join(tracefile.BLOCK.pack(starts[f"f{n}"], 1, 16, 4) for n in range(COUNT))
        tracefile.write_end(out, result, bytes(16) + table)
    return path


@pytest.fixture(scope="module")
def trace(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """f1, f6 and f3 in turn, and f0 once: hot ones in three windows, of eight."""
    return _traced(program, tmp_path_factory.mktemp("trace") / "t", [0, *[1, 6, 3] * 400])


def test_order_of_a_trace(trace: Path, program: Path, tmp_path: Path) -> None:
    """Two entries of 2 MiB and one left to others hold two of the four windows; with a third, all evict each other."""
    words = ["order-trace", trace, "-o", tmp_path / "o", "--cpu=4k=1,2m=3"]
    done = run(HUGEALIGN, *words)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"profile  {trace}: trace"
    assert lines[1].startswith(f"matched  100.00 % of 4804 instructions in {program}, ")
    assert lines[3].startswith("huge     2 windows of 2.0 MiB: ")
    rows = [line[2:].replace(",", "").rsplit(None, 1) for line in lines[8 : lines.index("", 8)]]
    # The order has the first block of a function in windows 1, 2, 4 and 5: one window more makes no difference to 2.
    assert [label.strip() for label, _ in rows[:4]] == ["0", "1", "2 to 3", "4 to 6"]
    assert lines[10].startswith("*")
    assert int(rows[2][1]) == min(int(misses) for _, misses in rows)
    order = orderfile.parse((tmp_path / "o").read_bytes())
    assert {entry.name for entry in order.entries if entry.kind == "hot"} == {"f0", "f1", "f3", "f6"}
    assert sum(entry.samples for entry in order.entries) == 4804
    assert (order.header["windows"], order.header["matched"]) == ("2", "4804 of 4804 instructions")
    # What was printed is what the simulator says of that order.
    words = ["simulate", trace, "--layout", f"order:{tmp_path / 'o'}", "--windows=0-4", "--cpu=4k=1,2m=2"]
    simulated = json.loads(run(HUGEALIGN, *words, "--json", check=True).stdout)["rows"]
    assert [row["misses"] for row in simulated] == [int(rows[n][1]) for n in (0, 1, 2, 2, 3)]


def test_a_trace_of_another_build(trace: Path, program: Path, tmp_path: Path) -> None:
    """Its functions are found by name, wherever they lie; one is gone.  Nothing of the new build can be replayed."""
    lines = [".text", ".globl _start", "_start: ret"]
    for n in (7, 6, 5, 3, 2, 1, 0):
        lines += [f".globl f{n}", f".type f{n}, @function", ".p2align 4", f"f{n}:", f".fill {FAR}, 1, 0x90", "ret"]
        lines += [f".size f{n}, . - f{n}"]
    (tmp_path / "new.s").write_text("\n".join([*lines, ""]))
    run("gcc", "-nostdlib", "-static", "-Wl,--build-id", "new.s", "-o", "program", cwd=tmp_path, check=True)
    words = [HUGEALIGN, "order-trace", trace, "-b", tmp_path / "program"]
    done = run(*words)
    assert done.returncode == 3
    assert done.stderr.endswith("trace this one, or give that one with --old-binary\n")
    old = run(*words[:3], "-b", program, "--windows=7", "-o", tmp_path / "old.order", check=True)
    done = run(*words, "--old-binary", program, "--cpu=4k=64,2m=8", "-o", tmp_path / "o", "--json", check=True)
    report = check(done.stdout)
    assert report["old_binary"] == {"path": str(program), "ran": 4, "matched": 4, "blocks": None}
    assert (report["simulation"], report["samples"]["total"]) == (None, 4804)
    known, result = (orderfile.load(str(tmp_path / name)) for name in ("old.order", "o"))
    hot = [[(entry.name, entry.samples) for entry in order.entries if entry.kind == "hot"] for order in (known, result)]
    assert {*hot[0]} == {*hot[1]}
    assert result.header["build-id"] == read_functions(tmp_path / "program").build_id != known.header["build-id"]
    assert old.stderr == done.stderr == ""


def test_other_windows_than_the_rule_has(trace: Path, program: Path, tmp_path: Path) -> None:
    """The rule goes by bytes; the simulation knows that only the first block of each function runs."""
    words = [HUGEALIGN, "order-trace", trace, "-b", program, "--cpu=4k=64,2m=8", "--json"]
    report = check(run(*words, check=True).stdout)
    assert report["unit"] == "instructions"
    result = report["simulation"]
    assert [row["windows"] for row in result["misses"]] == list(range(len(result["misses"])))
    best = min(range(1, len(result["misses"])), key=lambda count: (sum(result["misses"][count]["misses"]), count))
    assert report["huge"] == best < 7
    assert result["rule"] == 7  # four functions of 3 MiB and a bit
    done = run(HUGEALIGN, "order-trace", trace, "--cpu=4k=64,2m=8", "-o", tmp_path / "o", check=True)
    assert "min(needed, budget): " in done.stdout


def test_several_processors(trace: Path) -> None:
    """One number for all of them: that with the fewest misses together, and the budget is that of the smallest."""
    words = [HUGEALIGN, "order-trace", trace, "--json"]
    small, large = "--cpu=4k=1,2m=3", "--cpu=skylake"
    alone = [json.loads(run(*words, cpu, check=True).stdout) for cpu in (small, large)]
    both = check(run(*words, small, large, check=True).stdout)
    assert both["simulation"]["cpus"] == ["4k=1,2m=3", "skylake"]
    rows = [[row["misses"] for row in item["simulation"]["misses"]] for item in (*alone, both)]
    assert [a + b for a, b in zip(rows[0], rows[1], strict=False)] == rows[2][: len(rows[0])]
    assert both["budget"]["windows"] == 2
    assert alone[1]["budget"]["windows"] == 7


def test_a_program_without_symbols(program: Path, tmp_path: Path) -> None:
    """Its functions have no names to place them by: no order, unless requested."""
    stripped = program.with_name("stripped")
    path = tmp_path / "t"
    raw = _traced(program, path, [0, *[1, 6, 3] * 50])
    assert raw == path
    words = [HUGEALIGN, "order-trace", path, "-b", stripped, "-o", tmp_path / "o", "--cpu=skylake"]
    done = run(*words)
    assert done.returncode == 1
    assert "100.0% of the samples are in functions without a name" in done.stderr
    assert "--debuginfo" in done.stderr
    assert not (tmp_path / "o").exists()
    assert run(*words, "--force").returncode == 0
    assert not orderfile.parse((tmp_path / "o").read_bytes()).entries


def test_without_a_processor_nothing_is_simulated(program: Path, tmp_path: Path) -> None:
    """As of any profile: all windows if the text has no more than --windows says, else those that what ran needs."""
    trace = _traced(program, tmp_path / "t", [0, 3, 6])
    for entries, windows in ((0, 0), (1, 1), (99, 13)):
        words = ["order-trace", trace, "--windows", entries, "-o", tmp_path / "order"]
        done = run(HUGEALIGN, *words, check=True)
        assert "misses" not in done.stdout
        assert "as given by --windows" in done.stdout
        assert orderfile.load(str(tmp_path / "order")).header["windows"] == str(windows)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["absent"], 3, "absent: No such file"),
        (["empty"], 3, "empty: is not a trace: it is empty"),
        (["t", "--windows=x"], 2, "--windows: x: not a number from 0"),
        (["t", "--cpu=nosuch"], 2, "unknown CPU"),
        (["t", "--cpu=kunpeng920"], 2, "no source gives"),
        (["t", "--cpu=4k=3"], 2, "needs 4k= and 2m="),
        (["t", "--cpu=skylake", "-b", "/bin/true"], 3, "nothing of it runs in this trace"),
        (["nothing", "--cpu=skylake"], 1, "nothing: no function of "),
        (["t", "--old-binary", "x"], 2, "--old-binary requires -b"),
    ],
)
def test_what_the_command_refuses(words: list[str], status: int, message: str, program: Path, tmp_path: Path) -> None:
    _traced(program, tmp_path / "t", [0, 1])
    _traced(program, tmp_path / "nothing", [])
    (tmp_path / "empty").write_text("")
    done = run(HUGEALIGN, "order-trace", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_half_a_trace_in_functions(program: Path, tmp_path: Path) -> None:
    """Most instructions in no function, as in a file with the wrong symbols: refused, or done with a warning."""
    only = tmp_path / "only"
    names = [f"-Nf{n}" for n in range(COUNT) if n]
    subprocess.run(["objcopy", *names, "--remove-section=.eh_frame", program, only], check=True)
    path = _traced(program, tmp_path / "t", [0, *[1, 6, 3] * 50])
    words = [HUGEALIGN, "order-trace", path, "-b", only, "--cpu=skylake"]
    done = run(*words)
    assert done.returncode == 1
    assert "of the instructions are in functions of" in done.stderr
    assert run(*words, "--force").returncode == 0
