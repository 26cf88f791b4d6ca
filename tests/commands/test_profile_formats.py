"""Each text format, by samples that the real tools made of tests/profiles (make.sh), and by hostile ones."""

import gzip
import re
import shutil
import site
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hugealign.profile import read
from hugealign.profile.formats import FORMATS, detect
from hugealign.profile.model import Profile, ProfileError
from tests.commands import bounded
from tests.commands.profiles import SAMPLES, arcs, field, functions_of, label, load, named, pprof
from tests.fuzz.profiles import WITHOUT_TOOLS, corpus
from tests.support import HUGEALIGN, ROOT, environment, run

ODD = r"odd name\(x)"


def pprof_of(types: str, *samples: tuple[str, int], path: str = "/srv/prog", program: str = "/srv/prog") -> bytes:
    """Return a pprof of *samples*, values and a location: 1 is in hot of *program*, 2 in main of the file at *path*."""
    strings = [""]

    def text(word: str) -> int:
        if word not in strings:
            strings.append(word)
        return strings.index(word)

    def kind(words: str) -> bytes:
        name, _, unit = words.rpartition("/")
        return field(1, text(name)) + field(2, text(unit))

    data = b"".join(field(1, kind(word)) for word in types.split())
    for values, location in samples:
        data += field(2, field(1, location) + b"".join(field(2, int(value)) for value in values.split()))
    for number, start, file, build_id in ((1, 0x10, program, "12"), (2, 0x60, path, "34")):
        place = field(2, start) + field(3, start + 0x50) + field(4, 0)
        data += field(3, field(1, number) + place + field(5, text(file)) + field(6, text(build_id)))
    for number, name in ((1, "hot"), (2, "main")):
        line = field(4, field(1, number))
        data += field(4, field(1, number) + field(2, number) + field(3, 0x44 + 0x11 * number) + line)
        data += field(5, field(1, number) + field(2, text(name)))
    data += field(11, kind("cpu/nanoseconds")) + field(12, 10_000_000)
    return data + b"".join(field(6, word.encode()) for word in strings)


#: Where two processes have the program.
BASES = {"@": 0x5555_0000_0000, "&": 0x5666_0000_0000}


def mapped(pid: int = 7, base: str = "@", path: str = "/srv/prog") -> str:
    at = BASES[base] + 0x1000
    return f" {pid} PERF_RECORD_MMAP2 {pid}/{pid}: [{at:#x}(0x1000) @ 0x1000 fe:00 1 2]: r-xp {path}\n"


def placed(text: str, binary: Path) -> str:
    """Return *text* with the addresses that it names: ``%hot+4`` in the file, ``@hot+4`` and ``&hot+4`` in processes.

    ``%hot.end`` is behind the function, ``%hot.called`` behind its first call; ``<text>`` says where the text is mapped
    of a program that is not moved, and ``<elsewhere>`` says so of a library.
    """
    functions = functions_of(binary)
    segment = functions.image.text_segments[0]

    def address(match: re.Match[str]) -> str:
        start = functions.starts[functions.by_name[match["name"]][0]]
        if match["place"] == ".end":
            start += functions.sizes[functions.at(start)]
        elif match["place"]:
            code = binary.read_bytes()[segment.p_offset : segment.p_offset + segment.p_filesz]
            start = segment.p_vaddr + code.index(b"\xe8", start - segment.p_vaddr) + 5
        return f"{BASES.get(match['base'], 0) + start + int(match['plus'] or 0):x}"

    first, size = segment.p_vaddr & -4096, (segment.p_vaddr % 4096 + segment.p_memsz + 4095) & -4096
    place = f"({size:#x}) @ {segment.p_offset & -4096:#x} fe:00 1 2]: r-xp"
    text = text.replace("<text>", f"[{first:#x}{place}").replace("<elsewhere>", f"[0x7f0000000000{place}")
    pattern = r"(?P<base>[%@&])(?P<name>hot|helper|main|work|other)(?P<place>\.end|\.called)?(?P<plus>[+-]\d+)?"
    return re.sub(pattern, address, text)


@dataclass(frozen=True, slots=True)
class Row:
    """A profile, a file or what is in one, and what is *expected* of it: its format, and keys of `what_is_read`.

    Of a program of another name than ``prog``; with callers that are made up, if *any_caller*.
    """

    form: str
    data: Path | bytes | str
    expected: dict[str, Any]
    program: str
    any_caller: bool


def row(
    form: str, data: Path | bytes | str, *, program: str = "prog", any_caller: bool = False, **expected: Any
) -> Row:
    return Row(form, data, expected, program, any_caller)


def chain(*frames: str, file: str = "/srv/prog", event: str = "e:") -> str:
    return f" 7 {event} \n" + "".join(f"\t {at} ({file})\n" for at in frames) + "\n"


def branches(space: str, file: str = "/srv/prog") -> str:
    """As perf 6.1 prints `-F +brstacksym,+dso` for real branch records; the space, N and COND came later."""
    words = (
        f"main+0x40({file} (deleted))/hot+0x0({file} (deleted))/P/-/-/0/ "
        f"hot+0x7({file})/hot+0x3({file})/MN/-/-/1/COND/- "
        f"[unknown](/lib/libc.so.6)/main+0x45({file})/P/X/A/12/ [unknown]({file})/[unknown]({file})/P/-/-/1\n"
    ).replace("(/", f"{space}(/")
    return f"prog 1 2.0: 1 cycles:u: 401000 hot+0x1 ({file} (deleted)){words}" * 3


_KERNEL = "\tffffffff8158c5e7 ([kernel.kallsyms])\n\tffffffff81000c82 ([kernel.kallsyms])\n"
_FRAMES = "\t          %hot+1 (/srv/prog)\n\t          %main.called (/srv/prog)\n"
_IN_KERNEL = f" 7 e: \n{_KERNEL}{_FRAMES}\n 7 e: \n{_KERNEL}\n"
_ENTERED: dict[str, Any] = {
    "samples": {"hot": 0, "main": 0},
    "arcs": {},
    "good": 2,
    "foreign": 2,
    "bad": 0,
    "notes": [],
}
_UNCALLED = chain("%hot+1", "%main+10")
_STACKS = (
    chain("%hot+5")  # by which the process of those that follow is known
    + " 7 e: \n\t %hot+5 (/lib/libc.so.6)\n\t %work+5 (/srv/prog)\n\n"
    + chain("%hot+5", "%hot+5")
    + " 7 e: \n\t %hot+5 (/srv/prog)\n\t 1 (/lib/libc.so.6)\n\t %main+5 (/srv/prog)\n\t %other+5 (/srv/prog)\n\n"
)
_OURS_AND_ANOTHERS = (
    " 8 PERF_RECORD_MMAP2 8/8: <text> /usr/bin/py\n" + " 8 cpu-clock:u:      %hot+1\n" * 3
    + " 7 PERF_RECORD_MMAP2 7/7: <text> /srv/fixed\n 7 PERF_RECORD_MMAP2 7/7: <elsewhere> /lib/libc.so.6\n"
    + " 7 cpu-clock:u:      %hot+1\n" * 2 + " 8 PERF_RECORD_FORK(9:9):(8:8)\n 9 cpu-clock:u:      %hot+1\n"
    + " 7 PERF_RECORD_FORK(6:6):(7:7)\n 6 PERF_RECORD_MMAP2 6/6: <elsewhere> /lib/libc.so.6\n"
    + " 6 cpu-clock:u:      %hot+1\n" * 4
    + " 7 PERF_RECORD_COMM exec: py:7/7\n 7 PERF_RECORD_MMAP2 7/7: <text> /usr/bin/py\n 7 cpu-clock:u:      %hot+1\n"
    + " 8 PERF_RECORD_COMM exec: fixed:8/8\n 8 PERF_RECORD_MMAP2 8/8: <text> /srv/fixed\n"
    + " 8 cpu-clock:u:      %hot+1\n" * 5
)  # fmt: skip
_BEFORE_AND_AFTER = " 9 e:  @hot\n" * 3 + " 8 e:  @hot\n" * 3
#: Of inlined frames, that of the function itself is last.
_INLINED = [("hot+9", " within", 0), ("hot+9", " hot+0x9", 1), ("main+9", " around+0x2", 0), ("main+9", " main+0x9", 1)]


def inlined(*, symbols: bool) -> str:
    """As perf prints code with debug information, unless told --no-inline."""
    lines = (f"\t @{at}{name * symbols} ({'/srv/prog' if whole else 'inlined'})\n" for at, name, whole in _INLINED)
    return mapped() + (" 7 cpu-clock:u: \n" + "".join(lines) + "\n") * 3


_WITHIN: dict[str, Any] = {
    "arcs": {("main", "hot"): 3},
    "samples": {"hot": 3, "main": 0},
    "good": 3,
    "foreign": 0,
    "bad": 0,
}
#: A pprof of two files, `hot` of one and `main` of the other.
_TWO_FILES = ("samples/count", ("5", 1), ("7", 2))
READ = {
    # Exact counts of an instrumented run of 20 000 rounds; BOLT's numbers tell the two helpers apart.
    "fdata": row(
        "fdata", SAMPLES / "prog.fdata", foreign=6, rate=0.99,
        some_arcs={("hot", "helper@main.c"): 20000, ("work", "helper@other.c"): 5625, ("hot", ODD): 313,
                   ("main", "hot"): 1},
    ),
    # Instrumented profiles have the edges inside of a function too.
    "a fall-through is no call": row(
        "fdata", "1 hot/1 e 1 hot/1 12 0 5\n1 hot/1 20 1 hot/1 0 0 7\n1 main 3 1 hot/1 4 0 2\n",
        samples={"hot": 12, "main": 2}, arcs={},
    ),
    "fdata without branches": row(
        "fdata", SAMPLES / "no_lbr.fdata", arcs={}, samples={
            "hot": 250, "helper@main.c": 132, "helper@other.c": 107, "work": 9, ODD: 8},
    ),
    "bolt-yaml": row(
        "bolt-yaml", SAMPLES / "prog.yaml", some_arcs={("hot", "helper@main.c"): 20000, ("main", "hot"): 1}
    ),
    "perf script, flat": row(
        "perf-text", SAMPLES / "flat.txt", samples={"hot": 34, "helper@main.c": 22, ODD: 3}, total=59, hits=59,
        foreign=1,
    ),
    # A return address lies in the caller; every frame is touched, the innermost is sampled.
    "perf script, stacks": row(
        "perf-text", SAMPLES / "stacks.txt", samples={"hot": 25, "main": 0, "helper@main.c": 12, ODD: 2},
        some_arcs={("main", "hot"): 25}, total=39, foreign=1,
    ),
    # Written by hand after perf's sample__fprintf_brstacksym: there is no branch recorder here.
    "perf script, branches": row(
        "perf-text",
        "prog 1 2.0: 1 cycles:u: 401000 hot+0x1 (/srv/prog)  main+0x40/hot+0x0/P/-/-/0  hot+0x9/hot+0x3/M/-/-/1\n" * 3,
        calls={("main", "hot", 0x40): 3},
    ),
    **{
        f"perf script, branches with files{' later' * len(space)}, {Path(file).parent.name}": row(
            "perf-text", branches(space, file), arcs={("main", "hot"): 3}, samples={"hot": 6, "main": 3}, foreign=3,
            missing=[("[unknown]", 3)], bad=0,
        )
        for space in ("", " ") for file in ("/srv/prog", "/tmp/of/an/odd-name_0/prog")
    },
    "folded": row(
        "folded",
        f"# comment\nprog;main;hot;{ODD} 7\nprog;main;hot;inlined_[i] 5\nprog;main;hot;do_syscall_64_[k] 3\nhot 1\n",
        samples={"main": 0, "hot": 6, ODD: 7}, foreign=3, total=13, arcs={("hot", ODD): 7, ("main", "hot"): 5},
    ),
    # By perf's stackcollapse.py; what lies in other files has no mark there, and is not found.
    "folded by perf": row(
        "folded", SAMPLES / "folded.txt", some_samples={"hot": 2113}, some_arcs={("main", ODD): 3}, rate=0.99
    ),
    # Names are compressed; the costs after calls= are the callee's; other objects are not ours.
    "callgrind": row(
        "callgrind",
        "# callgrind format\nversion: 1\npositions: line\nevents: Ir\n\n"
        "ob=(1) /srv/prog\nfl=(1) /src/other.c\nfn=(1) work\n0 10\ncfn=(2) helper\ncalls=5 0 \n0 500\n0 2\n\n"
        "fl=(2) main.c\nfn=(3) main\n3 1\ncob=(2) /lib/libc.so\ncfi=(3) x.c\ncfn=(4) work\ncalls=9 0\n0 1000\n"
        "cfn=(1)\ncalls=4 0\n* 77\n\nfn=(2)\n+1 40\nob=(2)\nfl=(3)\nfn=(4)\n0 999\n",
        samples={"work": 12, "helper@other.c": 0, "main": 1, "helper@main.c": 40}, foreign=999,
        arcs={("work", "helper@other.c"): 5, ("main", "work"): 4},
    ),
    "symbols": row(
        "symbols", f"# first\nmain\n\n{ODD}\nmain\nabsent\n", samples={"main": 1, ODD: 1}, missing=[("absent", 1)]
    ),
    "the order of llvm-profdata": row(
        "symbols", SAMPLES / "symbols.txt", missing=[("odd", 1)],
        samples=dict.fromkeys(("main", "hot", "helper@main.c", "work", "other"), 1),
    ),
    # Samples count, else time in periods; memory does not.
    **{
        f"pprof, {types} {sample}": row("pprof", pprof_of(types, (sample, 1)), samples={"hot": hot})
        for types, sample, hot in (
            ("samples/count cpu/nanoseconds", "12 1", 12), ("cpu/nanoseconds samples/count", "1 12", 12),
            ("cpu/nanoseconds", "120000000", 12), ("cpu/nanoseconds", "3", 1),
            ("wall/nanoseconds", "12", 12),  # the period is another type's
            ("inuse_space/bytes alloc-samples/count cpu-samples/count", "1 2 12", 12),
        )
    },
    # Names in another file are not the program's, unless it ran under another name.
    "pprof, two files": row("pprof", pprof_of(*_TWO_FILES, path="/lib/libc.so.6"), samples={"hot": 5}, foreign=7),
    "pprof, two files, renamed": row(
        "pprof", pprof_of(*_TWO_FILES, path="/lib/libc.so.6", program="/srv/renamed"), samples={"hot": 5, "main": 7}
    ),
    # perf's two kinds of addresses.
    "flat addresses are the process's": row(
        "perf-addresses", mapped() + " 7 cpu-clock:u:      @hot+4\n" * 2, samples={"hot": 2}
    ),
    # Programs that are not moved lie at the same addresses, as Python's does: a mapping tells whose they are.
    "other programs at the same addresses": row(
        "perf-addresses", _OURS_AND_ANOTHERS, program="fixed", samples={"hot": 11}, foreign=5
    ),
    # A program that is not moved, such as Python's, has low addresses, at which this file has functions.
    "flat addresses of others are no offsets": row(
        "perf-addresses", mapped() + " 7 cpu-clock:u:      @hot+4\n" + " 8 cpu-clock:u:      %hot+4\n" * 3,
        samples={"hot": 1}, foreign=3,
    ),
    # And those of callers are where the callee returns to: the last byte of a caller may be the call.
    "chain addresses are offsets": row(
        "perf-addresses",
        mapped() + " 7 cpu-clock:u: \n\t %helper (/srv/prog)\n\t %hot.end (/srv/prog)\n\t %hot (/lib/libc.so.6)\n\n",
        any_caller=True, samples={"helper@main.c": 1, "hot": 0}, arcs={("hot", "helper@main.c"): 1},
    ),
    # As without frame pointers: left out, and said so if they are most.
    "some frames that no call returns to": row(
        "perf-addresses", mapped() + chain("%hot+1", "%main.called") + _UNCALLED, arcs={("main", "hot"): 1}, notes=[]
    ),
    "most frames that no call returns to": row(
        "perf-addresses", mapped() + _UNCALLED, samples={"hot": 1}, arcs={},
        notes=["1 of 1 frames above the innermost are not callers"],
    ),
    # At a page fault, say: in a function that has made no call there, and all the same ran.
    "where the program entered the kernel": row("perf-addresses", mapped() + _IN_KERNEL, **_ENTERED),
    "where it entered the kernel, beside an event": row(
        "perf-addresses", _IN_KERNEL.replace(" 7 e: \n", f"{mapped()} 7 e: \n"), **_ENTERED
    ),
    # Linux 3.11 and before tells no device with what is mapped.
    "old mappings": row(
        "perf-addresses",
        " 7 PERF_RECORD_MMAP 7/7: [0x555500001000(0x1000) @ 0x1000]: x /srv/prog\n 7 e:  @hot+1\n", samples={"hot": 1},
    ),
    "chain addresses are told by their range": row(
        "perf-addresses", mapped() + chain("@hot+9", "@main+9"), any_caller=True, arcs={("main", "hot"): 1}
    ),
    "inlined frames are none, with symbols": row("perf-text", inlined(symbols=True), any_caller=True, **_WITHIN),
    "inlined frames are none": row("perf-addresses", inlined(symbols=False), any_caller=True, **_WITHIN),
    # Told as such also where the file of the frame is known from others.
    "frames without an address": row(
        "perf-addresses", mapped() + "".join(map(chain, ("%hot", "zz", "12345678901234567", "1_1", "", "%hot"))),
        bad=4, foreign=4, samples={"hot": 2},
    ),
    # They ran whoever they call: a library, or itself; and those that call callers, of each stack.
    "callers": row(
        "perf-addresses", mapped() + _STACKS, any_caller=True, samples={"hot": 3, "work": 0, "main": 0, "other": 0},
        arcs={}, foreign=1, bad=0,
    ),
    "callers, where branches stand below": row(
        "perf-addresses",
        mapped() + _STACKS + " 7 cpu-clock:u: \n\t %hot+5 (/srv/prog)\n 0x@main+5/0x@hot/P/-/-/1\n\n",
        any_caller=True, arcs={("main", "hot"): 1}, bad=0,
    ),
    # Two runs, one forked, then a new program in the first.
    "each process has its own addresses": row(
        "perf-addresses",
        mapped() + mapped(8, "&") + " 7 e:  @hot\n 8 e:  &main\n 8 e:  @hot\n 9 PERF_RECORD_FORK(9:9):(7:7)\n"
        " 9 e:  @hot\n 7 PERF_RECORD_COMM exec: other:7/7\n 7 e:  @hot\n",
        samples={"hot": 2, "main": 1}, foreign=2,
    ),
    # What a sample meant is forgotten when its process comes to have the program, by a fork or by itself.
    "a number that another process had": row(
        "perf-addresses",
        mapped() + _BEFORE_AND_AFTER + " 7 PERF_RECORD_FORK(9:9):(7:7)\n" + _BEFORE_AND_AFTER + mapped(8)
        + _BEFORE_AND_AFTER,
        samples={"hot": 9}, foreign=9,
    ),
    # Written by hand after perf's sample__fprintf_brstack: there is no branch recorder here.
    "branch addresses": row(
        "perf-addresses",
        mapped() + " 7 cycles:u:  @hot  0x@main+5/0x@hot/P/-/-/12  0x@hot+9/0x@hot+2/M/-/-/0\n" * 4,
        samples={"main": 4, "hot": 4}, calls={("main", "hot", 5): 4},
    ),
    "addresses without a mapping, if it is not moved": row(
        "perf-addresses", " 7 cpu-clock:u:      %hot+1\n", program="fixed", samples={"hot": 1}
    ),
    **{
        f"name {name}": row("folded", f"{name} 1\n", samples=dict.fromkeys(found, 1))
        for names, *found in (
            ("hot hot.constprop.0 hot.isra.0.part.3 hot.llvm.123456 hot.cold hot.lto_priv.7/1 hot.cold.5", "hot"),
            ("helper/2 helper/other.c/1", "helper@other.c"),
            ("helper/9 helper.5", "helper@main.c"),  # another build had more of them
            ("hot.html hotter",),
        )
        for name in names.split()
    },
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_what_is_read(prog: Path, tmp_path: Path, request: pytest.FixtureRequest, name: str) -> None:
    row = READ[name]
    binary, path = prog.with_name(row.program), tmp_path / "p"
    functions = functions_of(binary)
    if row.any_caller:
        request.getfixturevalue("any_caller")
    if row.form == "bolt-yaml":
        pytest.importorskip("yaml", reason="no PyYAML")
    if isinstance(row.data, Path):
        path = row.data
    else:
        path.write_bytes(row.data if isinstance(row.data, bytes) else placed(row.data, binary).encode())
    profile, matched, form = load(path, binary)
    samples, calls = named(matched.samples, functions), arcs(matched, functions)
    assert form == row.form
    for key, value in row.expected.items():
        if key == "rate":
            assert matched.rate > value
        elif key == "notes":
            assert [part for part, note in zip(value, profile.notes, strict=True) if part not in note] == []
        elif key in ("some_samples", "some_arcs"):
            assert value.items() <= (samples if key == "some_samples" else calls).items()
        else:
            by_name = {
                (label(source, functions), label(target, functions), offset): count
                for (source, target, offset), count in matched.arcs.items()
            }
            seen = {"samples": samples, "arcs": calls, "calls": by_name, "bad": profile.bad, "good": profile.good}
            assert (seen[key] if key in seen else getattr(matched, key)) == value, key


def test_a_copy_with_other_addresses(prog: Path, tmp_path: Path) -> None:
    """Text that is mapped from within a segment and ends behind it is another file's, whatever the build-id."""
    functions = functions_of(prog)
    offset = functions.image.text_segments[0].p_offset + 0x100
    (tmp_path / "p").write_bytes(pprof(functions, (0x1000, 0x3000, offset)))
    profile, matched, _ = load(tmp_path / "p", prog)
    assert named(matched.samples, functions) in ({}, {"main": 0})
    assert ["where this file has none" in note for note in profile.notes] == [True]


def test_a_debug_file_of_a_text_that_is_mapped_otherwise(prog: Path, tmp_path: Path) -> None:
    """As `hugealign fix` has it: with what lies before it.  No size tells where the text is, and that is said."""
    debug = tmp_path / "prog.debug"
    subprocess.run(["objcopy", "--only-keep-debug", prog, debug], check=True)
    size = functions_of(prog).image.text_segments[0].p_memsz + 0x1000
    event = f" 7 PERF_RECORD_MMAP2 7/7: [0x555500000000({size + -size % 4096:#x}) @ 0 fe:00 1 2]: r-xp /srv/prog\n"
    (tmp_path / "p").write_text(placed(event + " 7 cpu-clock:u:      @hot+3\n" * 4, prog))
    profile, matched, _ = load(tmp_path / "p", debug)
    assert named(matched.samples, functions_of(debug)) == {"hot": 4}
    assert ["no mapping has the size of the text" in note for note in profile.notes] == [True]


# Hostile and damaged input.


@pytest.mark.parametrize(
    ("form", "line", "reads"),
    [
        ("folded", "main -5", 0), ("folded", "main 1e5", 0), ("folded", "main " + "9" * 400, 0),
        ("folded", "main 9223372036854775807", 1), ("folded", "main 9223372036854775808", 0),
        ("folded", "a\x1b[31m;'\"*() ; main 3", 1), ("folded", "main;" * 1000 + "main 2", 1),
        ("folded", "x" * (1 << 20) + " 4", 1), ("folded", "x" * (9 << 20) + " 4", 0),
        ("fdata", "1 main 0 1 main zz 0 1", 0), ("fdata", "1 main 0 1 main 0 0 -1", 0), ("fdata", "1 main\\", 0),
        ("fdata", "9 main 0 1 main 0 0 1", 0), ("fdata", "1 new\\\\line\\ x 0 1 main 0 0 18446744073709551616", 0),
        ("callgrind", "calls=x", 0), ("callgrind", "fn=(77)", 0),
        ("perf-text", "\tno frame", 0), ("perf-addresses", "\tno frame", 0),
    ],
)  # fmt: skip
def test_lines_that_mean_nothing_are_counted(prog: Path, tmp_path: Path, form: str, line: str, reads: int) -> None:
    good = {"fdata": "1 main 0 1 hot/1 0 0 1", "folded": "hot 1"}
    (tmp_path / "p").write_text(f"{line}\n{good.get(form, '')}\n")
    profile = Profile()
    with suppress(ProfileError):  # formats of which one line alone is nothing
        read.add(str(tmp_path / "p"), profile, functions_of(prog), str(prog), form)
    assert (profile.bad > 0) is (reads == 0)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("folded", "main;hot;main;hot 5\nmain;hot;main 2\nwork;work;work 3\n"),
        ("fdata", "1 main 1 1 hot/1 0 0 5\n1 hot/1 1 1 main 0 0 2\n1 work 3 1 work 0 0 3\n"),
        (
            "callgrind",
            (
                "# callgrind format\nfn=main\n0 5\ncfn=hot\ncalls=5 0\n0 9\n"
                "fn=hot\n0 2\ncfn=main'2\ncalls=2 0\n0 9\nfn=main'2\n0 1\ncfn=main'2\ncalls=3 0\n0 9\n"
            ),
        ),
    ],
)
def test_cycles(prog: Path, tmp_path: Path, form: str, text: str) -> None:
    """Functions that call each other, and themselves: each is placed once."""
    (tmp_path / "p").write_text(text)
    _, matched, result = load(tmp_path / "p", prog)
    calls = arcs(matched, functions_of(prog))
    assert result == form
    assert calls["hot", "main"] == 2
    assert calls["main", "hot"] in (2, 5)
    assert all(caller != callee for caller, callee in calls)
    done = run(HUGEALIGN, "order", tmp_path / "p", "-b", prog, "--emit=lld", "-o", tmp_path / "o")
    assert done.returncode == 0
    names = (tmp_path / "o").read_text().split()
    assert len(names) == len(set(names))
    assert {"main", "hot"} <= set(names)


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("folded", "{};hot 4"),
        ("fdata", "1 {} 0 1 hot/1 0 0 4"),
        ("callgrind", "fn={}\n0 4"),
        ("profdata-text", "Counters:\n  {}:\n    Function count: 4"),
        ("symbols", "{}"),
        ("order", "# hugealign.order/1\n{}\tsamples=4"),
        ("perf-text", "prog 7 1.0: 1 e: 401136 {}+0x1 (/srv/prog)"),
        ("gcov", '{{"files": [{{"file": "{}", "functions": [{{"name": "{}", "execution_count": 4}}]}}]}}'),
        ("bolt-yaml", "header:\n  profile-version: 1\nfunctions:\n  - name: {}\n    exec: 4"),
    ],
)
def test_a_name_of_a_mebibyte(prog: Path, tmp_path: Path, form: str, line: str) -> None:
    """It is a name as any other, or the line is left out; what is said stays short."""
    name = "x" * (1 << 20)
    text = line.replace("{{", "{").replace("}}", "}") if form == "gcov" else line
    (tmp_path / "p").write_text(text.replace("{}", name) + "\n")
    done = run(HUGEALIGN, "order", tmp_path / "p", "-b", prog, f"--type={form}")
    assert done.returncode in (0, 1, 3)
    assert all(line.startswith("hugealign: ") for line in done.stderr.splitlines())
    assert len(done.stdout + done.stderr) < 3000


@pytest.mark.parametrize("events", [True, False])
def test_a_program_under_another_name(prog: Path, tmp_path: Path, events: bool) -> None:
    """Functions are found by the name of their file, so the message has the names that there are."""
    event = "prog 7 PERF_RECORD_MMAP2 7/7: [0x10000(0x1000) @ 0 0:0 1 2]: r-xp /srv/prog\n"
    text = f"{event} 7 10100\n 7 10104\n" if events else "prog 7 1.0: 1 e: 401136 hot+0x1 (/srv/prog)\n" * 3
    (tmp_path / "p").write_text(text)
    renamed = shutil.copy(prog, tmp_path / "renamed")
    done = run(HUGEALIGN, "order", tmp_path / "p", "-b", renamed)
    assert done.returncode == (3 if events else 1)
    assert "/srv/prog" in done.stderr
    assert "name" in done.stderr
    assert "mmap" not in done.stderr


def test_packed(prog: Path, tmp_path: Path) -> None:
    data = (SAMPLES / "prog.fdata").read_bytes()
    (tmp_path / "gz").write_bytes(gzip.compress(data))
    (tmp_path / "plain").write_bytes(data)
    subprocess.run(["zstd", "-q", "plain", "-o", "zst"], cwd=tmp_path, check=True)
    expected = load(tmp_path / "plain", prog)[1]
    for name in ("gz", "zst"):
        assert load(tmp_path / name, prog)[1] == expected
        packed = (tmp_path / name).read_bytes()
        (tmp_path / "cut").write_bytes(packed[: len(packed) // 2])
        with pytest.raises(ProfileError, match=r"truncated|damaged"):
            load(tmp_path / "cut", prog)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b"\0\1\2\3", "unknown format"),
        (b"\x7fELF\2\1\1", "is an executable"),
        (b"PERFILE2" + bytes(200), "perf"),
        (b"\xfflprofi\x81" + bytes(200), "profdata"),
        (b"adcg" + bytes(200), "gcov"),
        (b"adcg\2\0\0\0" + bytes(200), "AutoFDO's profile for GCC"),
        (b"---\nheader:\n  profile-version: 1\n  x: [\n", "YAML"),
        (b"---\nheader:\n  profile-version: 1\nfunctions: &a [ *a ]\n", "aliases"),
        (b"---\nheader:\n  profile-version: 1\nfunctions: 5\n", "no functions"),
        (b"# hugealign.order/1\nname\tsamples=-4\n", "line 2"),
        (b" 7 cpu-clock:u:      5579eb1c408c\n", "show-mmap-events"),
        *(
            (pprof_of(types, ("5 5", 1)), rf"^does not say what ran, but: {types.partition('/')[0]}")
            for types in (
                "alloc_objects/count inuse_space/bytes", "contentions/count delay/nanoseconds", "off_cpu/nanoseconds"
            )
        ),
    ],
)  # fmt: skip
def test_bad_files(prog: Path, tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "p").write_bytes(data)
    with pytest.raises(ProfileError, match=message) as error:
        load(tmp_path / "p", prog)
    assert "\n" not in str(error.value)


def test_missing_files(prog: Path, tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="No such file"):
        load(tmp_path / "absent", prog)
    with pytest.raises(ProfileError, match="directory"):
        load(tmp_path, prog)


def test_the_fuzzers_have_a_sample_of_each_format_that_we_read(prog: Path) -> None:
    assert {detect(sample) for sample in corpus(functions_of(prog)).values()} >= {*WITHOUT_TOOLS}


def test_nothing_is_detected_in_noise() -> None:
    assert detect(bytes(range(256))) is None
    assert detect(b"\x0a\x0c\x08\0\0\0\0\0") is None  # cut where pprof's second field would begin


#: Reads a file of each line, in a form and in the one that is detected.
_READER = """
import sys
from contextlib import suppress
from pathlib import Path
from hugealign.profile.model import ProfileError
from tests.commands.profiles import load
place, form, *pieces = sys.argv[1:]
for piece in pieces:
    print(repr(piece), flush=True)
    line = piece * (2_000_000 // len(piece))
    Path(place, "p").write_text(f"{line}\\nmain {line}!\\n\\t{line}\\n{line} 5\\n7 e: {line}!\\n{line}:1:1\\n")
    for forced in (form, None):
        with suppress(ProfileError):
            load(Path(place, "p"), Path(place, "prog"), forced)
"""


@pytest.mark.parametrize("form", [name for name, form in FORMATS.items() if not form.tool and name != "bolt-yaml"])
def test_long_hostile_lines_take_no_long_time(prog: Path, tmp_path: Path, form: str) -> None:
    """No pattern takes the square of a line of 2 MB; nor does the detection, nor the matching of such names.

    Patterns run in C, where no step can be counted: the kernel ends what does not end.
    """
    shutil.copy(prog, tmp_path)
    pieces = ": a (|@a|/a|a/|main+0x1/| <cycle|0x1/0x1/P/|.part.0|(1) |a\\ |\t1 |:1|;".split("|")
    words = (sys.executable, "-c", _READER, tmp_path, form, *pieces)
    ended = bounded.started(*words, cwd=ROOT, env=environment())
    assert ended.status == 0, (ended.stdout.splitlines()[-1], ended.stderr)


def test_a_library_that_is_missing(prog: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "main", lambda: None)  # it would run every .pth file again
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ProfileError, match=rf"\({re.escape(sys.executable)} -m pip install PyYAML"):
        load(SAMPLES / "prog.yaml", prog)
