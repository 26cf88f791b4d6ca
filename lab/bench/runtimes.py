"""What each runtime that is here compiles, and what makes it huge.

Run by ``python -m lab.bench.runtimes --write docs/measured/runtimes.md [--path DIRECTORY]...`` as root; half a minute
for each row. Directories of other versions, such as those that npm has, come before PATH. Rows of the page that are
not measured again stay, each with its day; ``--only NAME`` measures one program. ``--check FILE`` compares with a
page instead, and names each row that no longer holds.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hugealign.io import replacing
from tests.live import jit

_SECONDS = 15.0  # to compile
_HALF = 50  # per cent of the samples in whole windows: from there on the code counts as huge
_HUGEALIGN = Path(__file__).parents[2] / "bin" / "hugealign"
_FUNCTIONS = 3000
_OTP = 'io:format("~s~n", [erlang:system_info(otp_release)]), halt().'
# What was written less than two seconds ago is not compiled otherwise.
_OPTIONS = ("enable_cli=1", "jit=function", "jit_buffer_size=64M", "file_update_protection=0")
_JIT = tuple(f"-dopcache.{option}" for option in _OPTIONS)
_PAGE = """\
# What runtimes compile

In {able} cases samples are in whole windows of compiled code, and in {done} of these huge pages cover them after
`adapt` ({before} were huge without it); in {none} cases there are none.

The shares are of all samples of a program: in whole windows of compiled code, in those that are huge, and in those that
are huge after `adapt`.

| runtime | started with | in whole windows | huge | after `adapt` | seen |
|---|---|--:|--:|--:|---|
{rows}

<details><summary>Without samples in a whole window</summary>

| runtime | started with | in whole windows | huge | after `adapt` | seen |
|---|---|--:|--:|--:|---|
{without}

</details>

## How it was made

`python -m lab.bench.runtimes --write docs/measured/runtimes.md` wrote this, on Linux {release}, each row on its day.
With `--check` in place of `--write` the command measures again, and names the rows that no longer hold. Each program
has a few thousand functions and runs for 15 seconds; then `hugealign adapt` samples it. The other samples are in
smaller pieces, or in the runtime's own text, which `hugealign run --fix` makes huge. Shares are of one run, and
differ between runs: two of node 24 with `--no-short-builtin-calls` gave 53 and 72 %, two of LuaJIT 2.1.1737090214 0
and 31 %. .NET keeps its code in pieces of less than a window. PHP 8.3 and 8.5, and .NET 9 and 10, were not available.
"""


@dataclass(frozen=True)
class Row:
    """A *program*, the words that it is *started* with, what *writes* its work, and how it tells its *version*."""

    program: str
    started: Sequence[str]
    writes: Callable[[Path], None]
    version: Sequence[str] = ("--version",)
    environ: Mapping[str, str] = field(default_factory=dict)


def _python(directory: Path) -> None:
    body = " s = 0\n for k in range(60): s += x * {0} + k\n return s & 255\n"
    parts = [f"def f{n}(x):\n{body.format(n)}" for n in range(_FUNCTIONS)]
    table = ",".join(f"f{n}" for n in range(_FUNCTIONS))
    loop = "s = 0\nwhile True:\n for f in table: s = f(s & 15)\n"
    (directory / "work.py").write_text(f"{''.join(parts)}table = [{table}]\n{loop}", encoding="ascii")


def _erlang(directory: Path) -> None:
    functions = range(_FUNCTIONS // 10)  # erlc takes long
    parts = [f"f{n}(X) -> g(60, X * {n}).\n" for n in functions]
    calls = ", ".join(f"f{n}(X)" for n in functions)
    text = "-module(work).\n-export([main/0]).\ng(0, S) -> S band 255;\ng(K, S) -> g(K - 1, S + K).\n"
    text += f"{''.join(parts)}all(X) -> {calls}, all(X).\nmain() -> all(3).\n"
    (directory / "work.erl").write_text(text, encoding="ascii")
    subprocess.run(["erlc", "work.erl"], cwd=directory, check=True, capture_output=True)


def _dotnet(directory: Path) -> None:
    lines = "".join(
        f"s += x * (n + {at}) ^ (s >> {1 + at % 7}); if ((s & {1 << at % 5}) != 0) s -= x;" for at in range(24)
    )
    body = f"int s = 0; for (int k = 0; k < 9; k++) {{ {lines} }} return s & 255;"
    functions = "".join(f"static int f{n}(int x) {{ const int n = {n}; {body} }}\n" for n in range(_FUNCTIONS))
    table = ", ".join(f"f{n}" for n in range(_FUNCTIONS))
    loop = "int s = 1; for (;;) foreach (var f in table) s = f(s & 15);"
    head = f"static readonly System.Func<int, int>[] table = {{ {table} }};\n"
    text = f"class Work {{\n{functions}{head}static void Main() {{ {loop} }}\n}}\n"
    (directory / "work.cs").write_text(text, encoding="ascii")
    subprocess.run(["mcs", "-out:work.dll", "work.cs"], cwd=directory, check=True, capture_output=True)
    framework = {"name": "Microsoft.NETCore.App", "version": "8.0.0"}
    options = {"framework": framework, "rollForward": "Major"}
    options["configProperties"] = {"System.Globalization.Invariant": True}
    (directory / "work.runtimeconfig.json").write_text(json.dumps({"runtimeOptions": options}), encoding="ascii")


ROWS = (
    Row("java", ("-cp", ".", "Work"), jit.java),
    Row("java", ("-XX:+UseTransparentHugePages", "-cp", ".", "Work"), jit.java),
    Row("node", ("work.js",), jit.js),
    Row("node", ("--no-short-builtin-calls", "work.js"), jit.js),
    Row("deno", ("run", "work.js"), jit.js),
    Row("deno", ("run", "--v8-flags=--no-short-builtin-calls", "work.js"), jit.js),
    Row("bun", ("work.js",), jit.js),
    Row("php", (*_JIT, "work.php"), jit.php),
    Row("luajit", ("work.lua",), jit.lua, ("-v",)),
    Row("luajit", ("-Osizemcode=16384", "-Omaxmcode=32768", "-Omaxtrace=20000", "work.lua"), jit.lua, ("-v",)),
    Row("pypy3", ("work.py",), _python),
    Row("dotnet", ("work.dll",), _dotnet, ("--list-runtimes",)),
    Row("dotnet", ("work.dll",), _dotnet, ("--list-runtimes",), {"DOTNET_EnableWriteXorExecute": "0"}),
    Row("erl", ("-noshell", "-s", "work", "main"), _erlang, ("-noshell", "-eval", _OTP)),
)


def programs(name: str, places: Sequence[str]) -> Iterator[str]:
    """Yield the programs of that *name* below *places* and on PATH, each once."""
    found = [str(path) for place in places for path in sorted(Path(place).glob(f"**/{name}*")) if path.stem == name]
    found += [path] if (path := shutil.which(name)) else []
    yield from dict.fromkeys(
        os.path.realpath(path) for path in found if os.path.isfile(path) and os.access(path, os.X_OK)
    )


def measured(row: Row, program: str) -> list[str]:
    """Return the cells of a row: the runtime, how it was started, and the shares of its samples; none if it ended."""
    with tempfile.TemporaryDirectory(prefix="runtimes-") as name:
        row.writes(Path(name))
        silent = subprocess.DEVNULL
        with subprocess.Popen(
            [program, *row.started], cwd=name, stdout=silent, stderr=silent, env=os.environ | row.environ
        ) as child:
            time.sleep(_SECONDS)
            words = [str(_HUGEALIGN), "adapt", "--json", str(child.pid)]
            said = subprocess.run(words, check=False, capture_output=True, text=True).stdout
            ended = child.poll() is not None
            child.kill()
    if ended:
        return []
    found = json.loads(said)["processes"]  # empty where nothing can become huge
    samples = found[0]["samples"] if found else 0
    compiled = [window for window in found[0]["windows"] if not window["part"]] if found else []
    there = [compiled, *([one for one in compiled if one[when] == "huge"] for when in ("before", "after"))]
    shares = [f"{100 * sum(one['samples'] for one in some) / max(samples, 1):.0f} %" for some in there]
    options = " ".join(
        [*(f"{key}={value}" for key, value in row.environ.items())]
        + [word for word in row.started if word.startswith("-") and len(word) > len("-cp")]
    )
    return [version(row, program), f"`{options}`" if options else "as it is", *shares, time.strftime("%Y-%m-%d")]


def version(row: Row, program: str) -> str:
    """Return name and version of a program."""
    done = subprocess.run([program, *row.version], check=False, capture_output=True, text=True)
    found = re.search(r"\d+(\.\d+)*", done.stdout + done.stderr)
    return f"{row.program} {found[0] if found else ''}".strip()


def page(rows: Sequence[Sequence[str]], text: str) -> str:
    """Return the document with *rows*, and those of the page *text* that were not measured again, in its order."""
    merged = list((recorded(text) | {tuple(row[:2]): list(row) for row in rows}).values())
    able = [row for row in merged if not row[2].startswith("0 ")]
    without = [row for row in merged if row not in able]
    return _PAGE.format(
        able=len(able),
        done=sum(_huge(row)[1] for row in able),
        before=sum(_huge(row)[0] for row in able),
        none=len(without),
        rows="\n".join(f"| {' | '.join(row)} |" for row in able),
        without="\n".join(f"| {' | '.join(row)} |" for row in without),
        release=os.uname().release.partition("-")[0],
    )


def recorded(text: str) -> dict[tuple[str, ...], list[str]]:
    """Return the rows of the page *text*, by runtime and how it was started."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.endswith(" |")]
    return {tuple(row[:2]): row for row in rows if "%" in row[2]}


def changed(rows: Sequence[Sequence[str]], text: str) -> list[str]:
    """Return the rows that say another thing than the page *text*: whether half of what can be huge is."""
    found = []
    for row in rows:
        before = recorded(text).get(tuple(row[:2]))
        if before and _huge(before) != _huge(row):
            found.append(f"{row[0]}, {row[1]}: {', '.join(row[2:])}; recorded: {', '.join(before[2:])}")
    return found


def _huge(row: Sequence[str]) -> list[bool]:
    whole, *shares = (float(cell.split(maxsplit=1)[0]) for cell in row[2:5])
    return [share > whole * _HALF / 100 for share in shares]


def _share(cell: str) -> float:
    return float(cell.split(maxsplit=1)[0])


def main() -> int:
    """Measure all, and write or compare the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("--check", metavar="FILE")
    parser.add_argument("--path", action="append", default=[])
    parser.add_argument("--only", metavar="NAME", action="append")
    args = parser.parse_args()
    rows = []
    for row in ROWS:
        if args.only and row.program not in args.only:
            continue
        for program in programs(row.program, args.path):
            cells = measured(row, program)
            rows += [cells] if cells else []
            print(" | ".join(cells) or f"{program}: it ended", file=sys.stderr, flush=True)
    if args.write:
        page_now = Path(args.write).read_text(encoding="utf-8") if os.path.exists(args.write) else ""
        replacing.write(args.write, page(rows, page_now).encode())
    if args.check:
        found = changed(rows, Path(args.check).read_text(encoding="utf-8"))
        print("\n".join(found))
        return int(bool(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
