"""``hugealign order``, as a command and as a function, on a real program."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import hugealign
from hugealign import orderfile
from hugealign.elf.symbols import read_functions
from hugealign.errors import HugealignError
from hugealign.orderfile import FILL, HOT
from hugealign.ordering import report
from tests.commands.profiles import SAMPLES, addressed
from tests.documents import check
from tests.support import HUGEALIGN, ROOT, need, run, worded

# The command.


def test_command(prog: Path, tmp_path: Path) -> None:
    words = ["order", SAMPLES / "prog.fdata", "-b", prog, "-o", tmp_path / "o", "--windows", 8]
    done = run(HUGEALIGN, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "budget   8 windows: as given by --windows" in done.stdout
    assert "matched  99.99 %" in done.stdout
    order = orderfile.parse((tmp_path / "o").read_bytes())
    assert order.header["windows"] == "1"
    assert order.header["budget"].startswith("8 ")
    assert re.fullmatch("[0-9a-f]{40}", order.header["build-id"])
    assert {e.name for e in order.entries} >= {"hot", "main", "work", r"odd name\(x)"}
    assert {(e.name, e.file) for e in order.entries} >= {("helper", "main.c"), ("helper", "other.c")}
    repeated = tmp_path / "again"
    run(HUGEALIGN, *words[:5], repeated, *words[6:], check=True)
    assert repeated.read_bytes() == (tmp_path / "o").read_bytes()
    # An order file is a profile, and nothing is lost.
    done = run(HUGEALIGN, "order", tmp_path / "o", "-b", prog, "-o", repeated, check=True)
    assert run(HUGEALIGN, "diff", tmp_path / "o", repeated).returncode == 0


def _valid(text: str, name: str) -> dict[str, Any]:
    """Return a document that is as its schema, and that schema not too lax: without a member of 1.0 it is not."""
    document: dict[str, Any] = check(text)
    schema = json.loads((ROOT / f"hugealign/ordering/{name}-1.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    assert document["schema"] == schema["$id"]
    for key in document.keys() - {"gain"}:
        assert not validator.is_valid({k: v for k, v in document.items() if k != key}), key
    assert not validator.is_valid(document | {"other": 1})
    return document


def test_documents_are_as_their_schemas(prog: Path, tmp_path: Path) -> None:
    """Those of `order --json` and `diff`; of a program with and without symbols."""
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", prog, "-o", stripped], check=True)
    functions = read_functions(prog)
    (tmp_path / "addresses").write_bytes(addressed(prog, {functions.starts[functions.by_name["hot"][0]]: 9}))
    for binary, profile in ((prog, SAMPLES / "prog.fdata"), (stripped, tmp_path / "addresses")):
        words = [HUGEALIGN, "order", profile, "-b", binary, "--force", "--windows=7"]
        report = _valid(run(*words, "--json", check=True).stdout, "order-report")
        assert report["samples"]["nameless"] == (9 if binary == stripped else 0)
    for name, sample in (("old", "prog.fdata"), ("new", "flat.txt")):
        run(HUGEALIGN, "order", SAMPLES / sample, "-b", prog, "-o", tmp_path / name, check=True)
    (tmp_path / "moved").write_text((tmp_path / "old").read_text().replace("# window: 1", "# window: 2"))
    for new in ("new", "moved", "old"):
        words = [HUGEALIGN, "diff", "--json", tmp_path / "old", tmp_path / new]
        made = _valid(run(*words).stdout, "order-diff")
        assert bool(made["moved"]) == (new == "moved")


def test_an_order_for_small_pages(prog: Path, tmp_path: Path) -> None:
    """It requests no huge window, has what is likely to run, and links as any other does."""
    order, ran = tmp_path / "small.order", tmp_path / "ran"
    ran.write_text("hot\nwork\nmain\n")
    words = [HUGEALIGN, "order", ran, "-b", prog, "--windows=0"]
    done = run(*words, "-o", order, check=True)
    assert "budget   0 windows: as given by --windows\n" in done.stdout
    assert "huge     0 windows of 2.0 MiB: the order is for small pages\n" in done.stdout
    assert " huge  " not in done.stdout
    document = _valid(run(*words, "--json", check=True).stdout, "order-report")
    assert (document["huge"], document["budget"]["windows"], document["whole_text"]) == (0, 0, False)
    made = orderfile.parse(order.read_bytes())
    assert made.header["windows"] == "0"
    assert {entry.name for entry in made.entries if entry.kind == HOT} == {"hot", "work", "main"}
    assert document["functions"]["fill"] == sum(entry.kind == FILL for entry in made.entries) > 0
    command = [HUGEALIGN, f"--profile={order}", "gcc", prog.with_name("main.o"), prog.with_name("other.o")]
    linked = run(*command, "-o", tmp_path / "linked", check=True)
    assert linked.stderr == ""
    assert run(tmp_path / "linked").returncode == run(prog).returncode


def test_several_profiles_are_added_up(prog: Path, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("never\n")
    done = run(HUGEALIGN, "order", SAMPLES / "prog.fdata", tmp_path / "list", "-b", prog, "--json", check=True)
    item = json.loads(run(HUGEALIGN, "order", SAMPLES / "prog.fdata", "-b", prog, "--json", check=True).stdout)
    both = json.loads(done.stdout)
    assert both["samples"]["total"] == item["samples"]["total"] + 1
    assert both["functions"]["hot"] == item["functions"]["hot"] + 1
    assert [p["format"] for p in both["profiles"]] == ["fdata", "symbols"]


def test_windows_of_small_pages(prog: Path) -> None:
    """With pages of 64 KiB the program is one; the table adds up."""
    done = run(
        HUGEALIGN,
        "order",
        SAMPLES / "stacks.txt",
        "-b",
        prog,
        "--page-size=64K",
        "--cpu=zen2",
        "--json",
        check=True,
    )
    report = json.loads(done.stdout)
    assert report["budget"]["windows"] == 63
    assert report["whole_text"] is True
    assert sum(w["samples"] for w in report["windows"]) == report["samples"]["matched"]


def test_another_program(prog: Path, tmp_path: Path) -> None:
    """Below half of the samples nothing is written, unless forced."""
    (tmp_path / "p").write_text("hot 4\nforeign\x1b[1m 6\n")
    words = ["order", tmp_path / "p", "-b", prog, "-o", tmp_path / "o"]
    done = run(HUGEALIGN, *words)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "only 40%" in done.stderr
    assert "\x1b" not in done.stderr
    assert not (tmp_path / "o").exists()
    done = run(HUGEALIGN, *words, "--force")
    assert done.returncode == 0
    assert "hot\t" in (tmp_path / "o").read_text()
    (tmp_path / "p").write_text("foreign 6\n")
    assert run(HUGEALIGN, *words, "--force").returncode == 1


@pytest.mark.parametrize(
    ("name", "text", "advice"),
    [
        ("names", "main;db::Tree<int>::put;db::find(int) const 9\nmain 1\n", "make it without demangling"),
        ("names", "std::sort(int*) 9\n", "make it without demangling"),
        ("calls", "events: Ir\nfn=db::find(int)\n1 9\nfn=main\n1 1\n", "use valgrind --demangle=no"),
        ("names", "main.(*Tree).put 9\nmain 1\n", ""),  # a symbol of Go
        ("names", "other_program 9\nmain 1\n", ""),
    ],
)
def test_demangled_names(prog: Path, tmp_path: Path, name: str, text: str, advice: str) -> None:
    """The program is the right one, but no symbol has such a name."""
    (tmp_path / name).write_text(text)
    done = run(HUGEALIGN, "order", tmp_path / name, "-b", prog, "--windows=7")
    assert (done.returncode, done.stdout) == (1, "")
    assert ("demangled names, which no symbol has: " in done.stderr) == bool(advice)
    assert (advice or "give the binary that ran") in done.stderr


def test_a_build_that_has_none_of_the_functions(prog: Path, tmp_path: Path) -> None:
    """Of the two builds one is another program: that, and not its map of blocks, is what is wrong."""
    (tmp_path / "other.c").write_text("int _start(void) { return 0; }\n")
    run("gcc", "-nostdlib", "other.c", "-o", "other", cwd=tmp_path, check=True)
    for more in ((), ("--blocks",)):
        words = ["order", SAMPLES / "stacks.txt", "--old-binary", prog, "-b", tmp_path / "other", *more]
        done = run(HUGEALIGN, *words)
        assert done.returncode == 1
        assert done.stderr.endswith(f"hugealign: error: no function that ran in {prog} is in {tmp_path / 'other'}\n")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["order"], 2, "order: no profile; example"),
        (["order", "absent", "-b", "prog"], 3, "absent: No such file"),
        (["order", "list", "-b", "absent"], 3, "absent: No such file"),
        (["order", "list", "-b", "list"], 3, f"list: {worded('file.not-elf')}"),
        (["order", "list", "-b", "object.o"], 3, worded("file.object")),
        (["order", "empty", "-b", "prog"], 3, "empty: is empty"),
        (["order", "prog", "-b", "prog"], 3, "prog: is an executable"),
        (["order", "list", "-b", "prog", "--type=nosuch"], 2, "--type: unknown"),
        (["order", "list", "-b", "prog", "--type=fdata"], 3, "it is not a valid fdata profile"),
        (["order", "list", "-b", "prog", "--cpu=nosuch"], 2, "unknown CPU nosuch"),
        (["order", "list", "-b", "prog", "--windows=-1"], 2, "--windows"),
        (["order", "list", "-b", "prog", "--page-size=3M"], 2, "--page-size"),
        (["order", "list", "-b", "prog", "-o", "none/o"], 3, "cannot be written"),
        (["order", "bad", "-b", "prog"], 0, "1 line is not folded"),
        (["order", "list", "--old-binary=prog"], 2, "--old-binary requires -b"),
        (["order", "list", "-b", "prog", "--old-binary="], 2, "order: --old-binary: no file"),
        (["order", "list", "-b", "prog", "--old-binary=absent"], 3, "absent: No such file"),
        (["order", "list", "-b", "absent", "--old-binary=prog"], 3, "absent: No such file"),
        (["order", "list", "-b", "list", "--old-binary=prog"], 3, f"list: {worded('file.not-elf')}"),
    ],
)
def test_what_the_command_refuses(prog: Path, words: list[str], status: int, message: str) -> None:
    directory = prog.parent
    (directory / "list").write_text("main\n")
    (directory / "empty").write_text("")
    (directory / "bad").write_text("main 1\nmain -1\n")
    if not (directory / "object.o").exists():
        shutil.copy(directory / "main.o", directory / "object.o")
    done = run(HUGEALIGN, *words, cwd=directory)
    assert done.returncode == status
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_diff_of_real_orders(prog: Path, tmp_path: Path) -> None:
    for name, profile in (("old", "prog.fdata"), ("new", "flat.txt")):
        run(HUGEALIGN, "order", SAMPLES / profile, "-b", prog, "-o", tmp_path / name, check=True)
    done = run(HUGEALIGN, "diff", tmp_path / "old", tmp_path / "new")
    assert done.returncode == 1
    assert "% of the samples in common" in done.stdout
    assert "lost" in done.stdout
    as_json = json.loads(run(HUGEALIGN, "diff", "--json", tmp_path / "old", tmp_path / "new").stdout)
    assert {f["name"] for f in as_json["lost"]} >= {"main", "other"}


def test_without_a_compiler(prog: Path, tmp_path: Path) -> None:
    """One line says what is missing; what is in no need of sorting by calls does without."""
    (tmp_path / "bin").mkdir()
    for tool in Path("/usr/bin").iterdir():
        if not re.search(r"(^|-)(cc|gcc|clang)(-\d+)?$", tool.name):
            (tmp_path / "bin" / tool.name).symlink_to(tool)
    (tmp_path / "stacks").write_text("main;work;hot 7\nmain;work 2\n")
    words = (HUGEALIGN, "order", tmp_path / "stacks", "-b", prog, "-o", tmp_path / "order")
    done = run(*words, PATH=str(tmp_path / "bin"), XDG_CACHE_HOME=str(tmp_path / "cache"))
    why = "code cannot be searched: no C compiler found (cc, gcc, clang); on Debian: apt-get install gcc libc6-dev"
    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"hugealign: error: {why}\n")
    assert not (tmp_path / "order").exists()


def test_lld_takes_the_order(prog: Path, tmp_path: Path) -> None:
    """The functions are in the order that we give."""
    need("ld.lld-19")
    order = tmp_path / "order"
    run(HUGEALIGN, "order", SAMPLES / "prog.fdata", "-b", prog, "-o", order, "--emit=lld", check=True)
    words = [
        "gcc",
        "-fuse-ld=lld",
        "-B/usr/lib/llvm-19/bin",
        f"-Wl,--symbol-ordering-file={order}",
        "-Wl,--no-warn-symbol-ordering",
    ]
    subprocess.run([*words, "main.o", "other.o", "-o", tmp_path / "out"], cwd=prog.parent, check=True)
    ours = {r"odd name\(x)", "main", "work", "other", "hot", "helper"}
    wanted = [name for name in order.read_text().splitlines() if name in ours]
    lines = subprocess.run(
        ["nm", "-n", tmp_path / "out"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    placed = dict.fromkeys(line.split(" ", 2)[2] for line in lines)
    assert [name for name in placed if name in ours] == wanted
    assert len(wanted) == 6


def test_the_same_as_a_function(prog: Path, tmp_path: Path) -> None:
    """What another program gets is what the command writes."""
    (tmp_path / "p").write_text("main;hot;helper 9\nhot 1\nnowhere 1\nno count\n")
    words = ["--windows=1", "--page-size=64K", "-o", tmp_path / "order"]
    reported = run(HUGEALIGN, "order", tmp_path / "p", "-b", prog, *words)
    output: list[str] = []
    options = hugealign.OrderOptions(page_size=1 << 16, budget=hugealign.budget_of(windows=1))
    made = hugealign.order(str(prog), [str(tmp_path / "p")], options, warn=output.append)
    assert orderfile.write(made.file()) == (tmp_path / "order").read_text()
    assert report.text(made) == reported.stdout
    assert [f"hugealign: warning: {line}" for line in output] == reported.stderr.splitlines()
    assert len(output) == 1
    assert made.plan.count == 1
    with pytest.raises(HugealignError, match="absent: No such file"):
        hugealign.order(str(prog), [str(tmp_path / "absent")])


def test_an_order_that_no_link_can_follow(prog: Path, tmp_path: Path) -> None:
    """Of what Go has compiled, all functions are one section: said when the order is made."""
    (tmp_path / "p").write_text("main;hot 900\nmain 1\n")
    run("objcopy", "--add-section", f".go.buildinfo={tmp_path / 'p'}", prog, tmp_path / "go", check=True)
    done = run(HUGEALIGN, "order", "p", "-b", "go", "-o", "order", cwd=tmp_path)
    assert (done.returncode, "go: Go makes one section of all its functions" in done.stderr) == (0, True)
    assert "Go makes" not in run(HUGEALIGN, "order", "p", "-b", prog, cwd=tmp_path, check=True).stderr


@pytest.mark.parametrize(("count", "warned"), [(99, True), (100, False)])
def test_few_samples_of_perf_are_told(count: int, warned: bool, prog: Path, tmp_path: Path) -> None:
    """As they are not of a list of symbols, which a person chose."""
    (tmp_path / "p").write_text(f"prog 7 1.0: 1 cpu-clock:u: \n\t 55555 hot+0x1 ({prog})\n\n" * count)
    done = run(HUGEALIGN, "order", "p", "-b", prog, cwd=tmp_path)
    assert done.returncode == 0
    assert (f"only {count} samples in {prog}, which has " in done.stderr) == warned
    (tmp_path / "list").write_text("hot\nmain\n")
    assert run(HUGEALIGN, "order", "list", "-b", prog, cwd=tmp_path, check=True).stderr == ""


def test_few_samples_make_no_order_for_small_pages(prog: Path, tmp_path: Path) -> None:
    """The linker's stays, and one line says so; what counted everything may have counted little."""
    (tmp_path / "p").write_text(f"prog 7 1.0: 1 cpu-clock:u: \n\t 55555 hot+0x1 ({prog})\n\n" * 99)
    words = ("order", "-b", prog, "--windows", "0", "-o", "out")
    done = run(HUGEALIGN, *words, "p", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"hugealign: error: only 99 samples in {prog}")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
    assert run(HUGEALIGN, *words, "p", "--force", cwd=tmp_path).returncode == 0
    (tmp_path / "list").write_text("hot\nmain\n")
    assert run(HUGEALIGN, *words, "list", cwd=tmp_path).returncode == 0
