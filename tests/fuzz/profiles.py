"""Profiles of each text format, damage to them, and what must hold for the order and the map that are made of them."""

import random
from pathlib import Path

from hugealign import orderfile
from hugealign.code.calls import Calls
from hugealign.diagnosis import documents
from hugealign.elf.symbols import Functions
from hugealign.errors import HugealignError
from hugealign.map import layout
from hugealign.map import report as heat
from hugealign.ordering import diff, problem, report
from hugealign.ordering.compose import symbol_list
from hugealign.ordering.order import Order
from hugealign.ordering.windows import WindowRoom
from hugealign.profile import counts, read
from hugealign.profile.formats import FORMATS, detect
from hugealign.profile.match import Matched, match
from hugealign.profile.model import Profile
from hugealign.profile.ran import Ran
from hugealign.system.budget import Budget
from tests.commands.profiles import SAMPLES, otlp, pprof

_PAGE = 1 << 16
_NUMBERS = (
    *(
        b"0",
        b"-1",
        b"1",
        b"255",
        b"9223372036854775807",
        b"9223372036854775808",
        b"18446744073709551616",
        b"1e9",
        b"0x10",
    ),
    *(b"9" * 400, b"ffffffffffffffff", b"NaN", b"1_000", "\u0663".encode(), b"+5"),
)
_EVIL = (
    *(b"\x1b[31m", b"\x00", b"\xff\xfe", b"\r", b"\n", b"\n\n", b"\t", b" ", b";", b";;", b"(", b")", b'"', b"'", b"*"),
    *(b"\\", b"\\ ", b"#", b"@", b":", b"/", b"//", b"/0x", b".cold", b".constprop.0", b"@@GLIBC_2.34", b"/2"),
    *(b"[unknown]", b"_[k]", b"\xe2\x80\xae", b"PERF_RECORD_", b"%s%n", b"- &a [*a]", b"{", b"]", b"x" * 5000),
)
#: Formats whose readers start a tool are left out: that tool is not ours.
WITHOUT_TOOLS = tuple(name for name, form in FORMATS.items() if not form.tool)
#: The samples that are text, by name.
SAMPLED = {
    path.name: path.read_bytes()[:6000]
    for path in sorted(SAMPLES.iterdir())
    if path.suffix in (".txt", ".fdata", ".yaml")
}
#: Of `corpus`, protocol buffers.
BINARY = ("proto", "otlp")


def corpus(functions: Functions) -> dict[str, bytes]:
    """Return a small file of each text format, with functions and addresses of the program."""
    at = {name: functions.starts[indices[0]] for name, indices in functions.by_name.items()}
    base = 0x555500000000
    main, hot_at = at["main"], at["hot"]
    mapped = f" 7 PERF_RECORD_MMAP2 7/7: [{base + 0x1000:#x}(0x1000) @ 0x1000 fe:00 1 2]: r-xp /srv/prog\n"
    texts = {
        "folded": "# c\nprog;main;hot;helper 7\nprog;main;hot;do_syscall_[k] 3\nhot 1\n[unknown] 4\n",
        "symbols": "# c\nmain\nhot\nhelper\n",
        "order": "# hugealign.order/1\n# windows: 3\n# window: 1\nhot\tsamples=5\n"
        "helper\tfile=main.c\n@1160\tkind=fill\n",
        "callgrind": "# callgrind format\npositions: line\nevents: Ir\n\nob=(1) /srv/prog\nfl=(1) main.c\nfn=(1) main\n"
        "0 10\ncfn=(2) hot\ncalls=5 0\n0 500\n\nfn=(2)\n+1 40\nob=(2) /lib/c\nfn=(4) x\n0 9\n",
        "addresses": mapped + f" 7 e:  {base + hot_at:x}\n" * 3 + " 9 PERF_RECORD_FORK(9:9):(7:7)\n",
        "chains": mapped + f" 7 e: \n\t {hot_at + 1:x} (/srv/prog)\n\t {main + 5:x} (/srv/prog)\n\n" * 3,
        "branch-files": " 7 e:  401000 hot+0x1 (/srv/prog)main+0x5(/srv/prog)/hot+0x0(/srv/prog)/P/-/-/0/ "
        "[unknown](/lib/c (deleted))/hot+0x9(/srv/prog)/MN/X/A/12/COND/-\n" * 3,
        "branches": mapped + f" 7 e:  {base + hot_at:x}  {base + main:#x}/{base + hot_at:#x}/P/-/-/1\n" * 3,
        "pprof": "PeriodType: cpu nanoseconds\nSamples:\nsamples/count\n  12  120: 1 2 \nLocations\n"
        f"  1: {hot_at:#x} M=1 hot /a.c:4:0 s=4\n  2: 0x55 M=2 main /a.c:5:0 s=5\nMappings\n"
        f"1: 0x1000/0x2000/0x1000 /srv/prog {functions.build_id} [FN]\n",
        "gcov": '{"gcc_version": "12", "files": [{"file": "main.c", "functions": '
        '[{"name": "hot", "execution_count": 5}]}]}\n',
        "profdata": "Counters:\n  main.c:helper:\n    Counters: 1\n    Function count: 5\n    Block counts: [1, 2]\n",
    }
    same, other = (counts.head(build_id, "prog") for build_id in (functions.build_id, "ab" * 20))
    ends = counts.end(main, "main", ""), counts.end(hot_at, "hot", "")
    ran = {counts.function(hot_at, "hot", "main.c"): 9, counts.function(main, "main", ""): 3, counts.HOSTS: 1}
    calls = {counts.call(ends[0], 5, ends[1]): 4, b"r\t%x\t%x" % (hot_at, hot_at + 4): 4, counts.OUTSIDE: 1}
    elsewhere = {counts.function(None, "work", "", b"0" * 16): 2, counts.call(b"work\t", None, b"hot\tmain.c"): 1}
    added = {same: ran | calls, other: elsewhere, counts.head("", "libc.so.6"): {counts.FOREIGN: 5}}
    return (
        SAMPLED
        | {name: text.encode() for name, text in texts.items()}
        | {
            "counts": counts.write(added),
            "proto": pprof(functions),
            "otlp": otlp(functions),
        }
    )


def counted(functions: Functions, chance: random.Random) -> bytes:
    """Return counts with a right checksum, of keys that mean something and of keys that do not."""
    names = [*functions.names, *(evil.decode("utf-8", "surrogateescape") for evil in _EVIL)]
    addresses = [None, 0, *functions.starts, 2**64 - 1, 2**64]

    def key() -> bytes:
        kind = chance.randrange(8)
        ends = [counts.end(chance.choice(addresses), chance.choice(names), chance.choice(names)) for _ in range(2)]
        if kind < 4:
            code = chance.choice([b"", b"0" * 16])
            return counts.function(chance.choice(addresses), chance.choice(names), chance.choice(names), code)
        if kind < 6:
            return counts.call(ends[0], chance.choice(addresses), ends[1])
        if kind < 7:
            first, last = (chance.choice(functions.starts) for _ in range(2))
            return b"%b\t%x\t%x" % (chance.choice([b"r", b"j"]), first, last)
        return chance.choice([counts.HOSTS, counts.FOREIGN, counts.OUTSIDE, counts.BAD, *_EVIL])

    builds = [functions.build_id, "", "ab" * 20, "x"]
    return counts.write(
        {
            counts.head(chance.choice(builds), chance.choice(["prog", "libc.so.6", *names])): {
                key(): chance.choice([0, 1, 7, counts.MOST, 2**70]) for _ in range(chance.randrange(5))
            }
            for _ in range(chance.randrange(4))
        }
    )


def mutate(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Return *data* with one to six pieces of damage."""
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(8)
        if kind == 0:
            data = data[:at] + chance.choice(_EVIL) + data[at:]
        elif kind == 1:
            data = data[:at] + chance.choice(_NUMBERS) + data[at:].lstrip(b"0123456789")
        elif kind == 2:
            data = data[:at]
        elif kind == 3:
            data = data[:at] + data[at + chance.randrange(1, 40) :]
        elif kind == 4:
            data = data[:at] + other[chance.randrange(len(other)) :][: chance.randrange(200)] + data[at:]
        elif kind == 5:
            rows = data.split(b"\n")
            chance.shuffle(rows)
            data = b"\n".join(rows)
        elif kind == 6:
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        else:
            data += data[at : at + 500]
    return data[: 1 << 18]


def check(path: Path, functions: Functions, form: str | None = None) -> str:
    """Read a profile without its tools, match it, and make all that comes of it; return its format, or ``refused``."""
    with path.open("rb") as file:
        result = form or detect(file.read(1 << 16))
    if result in ("gzip", "zstd") or (result in FORMATS and FORMATS[result].tool):
        return "tool"
    profile = Profile()
    try:
        result = read.add(str(path), profile, functions, "/srv/prog", form)
    except HugealignError as error:
        if not str(error).isprintable():
            raise ValueError(f"prints {str(error)!r}") from None
        return "refused"
    matched = match(profile, functions)
    assert 0 <= matched.hits <= matched.total
    made_of(path.name, result, matched, functions)
    return result


class _Halves(Calls):
    """Calls from each of *count* functions to the next and to that of half its number."""

    def __init__(self, count: int) -> None:
        self.count = count

    def callees(self, index: int) -> list[int]:
        return [other for other in (index + 1, index // 2) if other < self.count]

    def callers(self, index: int) -> list[int]:
        return [other for other in (index - 1, index * 2) if 0 <= other < self.count]


def made_of(name: str, form: str, matched: Matched, functions: Functions) -> None:
    """Make all that `order` and `map` make of a profile."""
    calls = _Halves(len(functions))
    ran = Ran("prog", functions, matched, [(name, form)])
    budget = matched.hits % 3
    plan = problem.plan(problem.Problem(matched, functions, WindowRoom(_PAGE, budget), calls, calls))
    made = Order(ran, Budget(7, "test", 8), plan)
    order = made.file()
    text = orderfile.write(order)
    repeated = orderfile.parse(text.encode())
    assert [e.key for e in repeated.entries] == [e.key for e in order.entries]
    assert diff.compare(order, repeated).same
    symbol_list(order)
    layouts = (layout.before(functions, matched, _PAGE, None), layout.after(functions, matched, plan))
    shown = layout.Map(ran, made.budget, plan, "", None, layouts)
    assert all(result.uncovered()[-1] == 0 for result in layouts)
    printed = (
        report.text(made)
        + documents.text(report.Report(made), names=str)
        + heat.text(shown)
        + documents.text(shown, names=str)
    )
    bad = {c for c in printed if not c.isprintable() and c != "\n"}
    assert not bad, f"prints {bad}"
