"""Each text format, by samples that the real tools made of tests/profiles (make.sh), and by hostile ones."""

import gzip
import re
import shutil
import site
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from hugealign.elf.symbols import Functions
from hugealign.profile import read
from hugealign.profile.formats import FORMATS, detect
from hugealign.profile.model import Profile, ProfileError
from tests.commands import bounded
from tests.commands.profiles import SAMPLES, arcs, field, functions_of, load, named, pprof
from tests.fuzz.profiles import WITHOUT_TOOLS, corpus
from tests.support import HUGEALIGN, ROOT, environment, run

ODD = r"odd name\(x)"


@pytest.fixture
def functions(prog: Path) -> Functions:
    return functions_of(prog)


def test_fdata(prog: Path, functions: Functions) -> None:
    """Exact counts of an instrumented run of 20 000 rounds; BOLT's numbers tell the two helpers apart."""
    _, matched, form = load(SAMPLES / "prog.fdata", prog)
    assert form == "fdata"
    calls = arcs(matched, functions)
    assert calls["hot", "helper@main.c"] == 20000
    assert calls["work", "helper@other.c"] == 5000 + 625
    assert calls["hot", ODD] == 313
    assert calls["main", "hot"] == 1
    assert matched.foreign == 6
    assert matched.rate > 0.99


def test_fdata_fall_through_is_no_call(prog: Path, tmp_path: Path) -> None:
    """Instrumented profiles have the edges inside of a function too."""
    (tmp_path / "p").write_text("1 hot/1 e 1 hot/1 12 0 5\n1 hot/1 20 1 hot/1 0 0 7\n1 main 3 1 hot/1 4 0 2\n")
    _, matched, _ = load(tmp_path / "p", prog)
    assert matched.arcs == {}
    assert sum(matched.samples.values()) == 14


def test_fdata_without_branches(prog: Path, functions: Functions) -> None:
    _, matched, form = load(SAMPLES / "no_lbr.fdata", prog)
    samples = named(matched.samples, functions)
    assert form == "fdata"
    assert samples["hot"] > samples["helper@main.c"] > samples[ODD] > 0
    assert matched.arcs == {}


def test_bolt_yaml(prog: Path, functions: Functions) -> None:
    pytest.importorskip("yaml", reason="no PyYAML")
    _, matched, form = load(SAMPLES / "prog.yaml", prog)
    assert form == "bolt-yaml"
    assert arcs(matched, functions)["hot", "helper@main.c"] == 20000
    assert arcs(matched, functions)["main", "hot"] == 1


def test_perf_script_flat(prog: Path, functions: Functions) -> None:
    _, matched, form = load(SAMPLES / "flat.txt", prog)
    assert form == "perf-text"
    assert set(named(matched.samples, functions)) >= {"hot", "helper@main.c"}
    assert matched.hits == matched.total
    assert matched.total + matched.foreign == 60


def test_perf_script_stacks(prog: Path, functions: Functions) -> None:
    """A return address lies in the caller; every frame is touched, the innermost is sampled."""
    _, matched, form = load(SAMPLES / "stacks.txt", prog)
    samples = named(matched.samples, functions)
    assert form == "perf-text"
    assert samples["main"] == 0
    assert arcs(matched, functions)["main", "hot"] == samples["hot"] > 0
    assert matched.total + matched.foreign == 40


def test_perf_script_branch_symbols(prog: Path, functions: Functions, tmp_path: Path) -> None:
    """Written by hand after perf's sample__fprintf_brstacksym: there is no branch recorder here."""
    (tmp_path / "p").write_text(
        "prog 1 2.0: 1 cycles:u: 401000 hot+0x1 (/srv/prog)  main+0x40/hot+0x0/P/-/-/0  hot+0x9/hot+0x3/M/-/-/1\n" * 3
    )
    _, matched, form = load(tmp_path / "p", prog)
    assert form == "perf-text"
    assert arcs(matched, functions) == {("main", "hot"): 3}
    assert next(iter(matched.arcs))[2] == 0x40


@pytest.mark.parametrize("space", ["", " "])
def test_perf_script_branch_symbols_with_files(prog: Path, functions: Functions, tmp_path: Path, space: str) -> None:
    """As perf 6.1 prints `-F +brstacksym,+dso` for real branch records; the space, N and COND came later."""
    branches = (
        "main+0x40(/srv/prog (deleted))/hot+0x0(/srv/prog (deleted))/P/-/-/0/ "
        "hot+0x7(/srv/prog)/hot+0x3(/srv/prog)/MN/-/-/1/COND/- "
        "[unknown](/lib/libc.so.6)/main+0x45(/srv/prog)/P/X/A/12/ [unknown](/srv/prog)/[unknown](/srv/prog)/P/-/-/1\n"
    ).replace("(/", f"{space}(/")
    (tmp_path / "p").write_text(f"prog 1 2.0: 1 cycles:u: 401000 hot+0x1 (/srv/prog (deleted)){branches}" * 3)
    profile, matched, form = load(tmp_path / "p", prog, "perf-text")
    assert form == "perf-text"
    assert arcs(matched, functions) == {("main", "hot"): 3}
    assert named(matched.samples, functions) == {"hot": 6, "main": 3}
    assert profile.foreign == 3
    assert matched.missing == [("[unknown]", 3)]
    assert not profile.bad
    (tmp_path / "p").write_text((tmp_path / "p").read_text().replace("/srv/prog", str(tmp_path / "prog")))
    assert load(tmp_path / "p", prog)[2] == form


def test_folded(prog: Path, functions: Functions, tmp_path: Path) -> None:
    (tmp_path / "p").write_text(
        f"# comment\nprog;main;hot;{ODD} 7\nprog;main;hot;inlined_[i] 5\nprog;main;hot;do_syscall_64_[k] 3\nhot 1\n"
    )
    _, matched, form = load(tmp_path / "p", prog)
    assert form == "folded"
    assert named(matched.samples, functions) == {"main": 0, "hot": 6, ODD: 7}
    assert (matched.foreign, matched.total) == (3, 13)
    assert arcs(matched, functions) == {("hot", ODD): 7, ("main", "hot"): 5}


def test_folded_by_perf(prog: Path, functions: Functions) -> None:
    """By perf's stackcollapse.py; what lies in other files has no mark there, and is not found."""
    _, matched, form = load(SAMPLES / "folded.txt", prog)
    assert form == "folded"
    assert named(matched.samples, functions)["hot"] == 2113
    assert arcs(matched, functions)["main", ODD] == 3
    assert matched.rate > 0.99


def test_callgrind(prog: Path, functions: Functions, tmp_path: Path) -> None:
    """Names are compressed; the costs after calls= are the callee's; other objects are not ours."""
    (tmp_path / "p").write_text(
        "# callgrind format\nversion: 1\npositions: line\nevents: Ir\n\n"
        "ob=(1) /srv/prog\nfl=(1) /src/other.c\nfn=(1) work\n0 10\ncfn=(2) helper\ncalls=5 0 \n0 500\n0 2\n\n"
        "fl=(2) main.c\nfn=(3) main\n3 1\ncob=(2) /lib/libc.so\ncfi=(3) x.c\ncfn=(4) work\ncalls=9 0\n0 1000\n"
        "cfn=(1)\ncalls=4 0\n* 77\n\nfn=(2)\n+1 40\nob=(2)\nfl=(3)\nfn=(4)\n0 999\n"
    )
    _, matched, form = load(tmp_path / "p", prog)
    assert form == "callgrind"
    assert named(matched.samples, functions) == {"work": 12, "helper@other.c": 0, "main": 1, "helper@main.c": 40}
    assert arcs(matched, functions) == {("work", "helper@other.c"): 5, ("main", "work"): 4}
    assert matched.foreign == 999


def test_symbols(prog: Path, functions: Functions, tmp_path: Path) -> None:
    (tmp_path / "p").write_text(f"# first\nmain\n\n{ODD}\nmain\nabsent\n")
    _, matched, form = load(tmp_path / "p", prog)
    assert form == "symbols"
    assert named(matched.samples, functions) == {"main": 1, ODD: 1}
    assert matched.missing == [("absent", 1)]


def test_order_of_llvm_profdata(prog: Path, functions: Functions) -> None:
    _, matched, form = load(SAMPLES / "symbols.txt", prog)
    assert form == "symbols"
    assert set(named(matched.samples, functions)) == {"main", "hot", "helper@main.c", "work", "other"}
    assert matched.missing == [("odd", 1)]


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


@pytest.mark.parametrize(
    ("types", "sample", "hot"),
    [
        ("samples/count cpu/nanoseconds", "12 1", 12),
        ("cpu/nanoseconds samples/count", "1 12", 12),
        ("cpu/nanoseconds", "120000000", 12),
        ("cpu/nanoseconds", "3", 1),
        ("wall/nanoseconds", "12", 12),  # the period is another type's
        ("inuse_space/bytes alloc-samples/count cpu-samples/count", "1 2 12", 12),
    ],
)
def test_the_types_of_pprof(
    prog: Path, functions: Functions, tmp_path: Path, types: str, sample: str, hot: int
) -> None:
    """Samples count, else time in periods; memory does not."""
    (tmp_path / "p").write_bytes(pprof_of(types, (sample, 1)))
    assert named(load(tmp_path / "p", prog)[1].samples, functions) == {"hot": hot}


@pytest.mark.parametrize(
    "types", ["alloc_objects/count inuse_space/bytes", "contentions/count delay/nanoseconds", "off_cpu/nanoseconds"]
)
def test_a_pprof_that_does_not_say_what_ran(prog: Path, tmp_path: Path, types: str) -> None:
    (tmp_path / "p").write_bytes(pprof_of(types, ("5 5", 1)))
    with pytest.raises(ProfileError, match=r"^does not say what ran, but: (alloc_objects|contentions|off_cpu)"):
        load(tmp_path / "p", prog)


def test_names_in_another_file_of_a_pprof(prog: Path, functions: Functions, tmp_path: Path) -> None:
    """They are not the program's, unless it ran under another name."""
    samples, path = (("5", 1), ("7", 2)), "/lib/libc.so.6"
    (tmp_path / "p").write_bytes(pprof_of("samples/count", *samples, path=path))
    _, matched, _ = load(tmp_path / "p", prog)
    assert (named(matched.samples, functions), matched.foreign) == ({"hot": 5}, 7)
    (tmp_path / "p").write_bytes(pprof_of("samples/count", *samples, path=path, program="/srv/renamed"))
    assert named(load(tmp_path / "p", prog)[1].samples, functions) == {"hot": 5, "main": 7}


def test_pprof_of_a_copy_with_other_addresses(prog: Path, functions: Functions, tmp_path: Path) -> None:
    """Text that is mapped from within a segment and ends behind it is another file's, whatever the build-id."""
    offset = functions.image.text_segments[0].p_offset + 0x100
    (tmp_path / "p").write_bytes(pprof(functions, (0x1000, 0x3000, offset)))
    profile, matched, _ = load(tmp_path / "p", prog)
    assert named(matched.samples, functions) in ({}, {"main": 0})
    assert ["where this file has none" in note for note in profile.notes] == [True]


# perf's two kinds of addresses.


def _mapped(start: int, pid: int = 7) -> str:
    return f" {pid} PERF_RECORD_MMAP2 {pid}/{pid}: [{start:#x}(0x1000) @ 0x1000 fe:00 1 2]: r-xp /srv/prog\n"


def test_flat_addresses_are_those_of_the_process(prog: Path, functions: Functions, tmp_path: Path) -> None:
    hot = functions.starts[functions.by_name["hot"][0]]
    (tmp_path / "p").write_text(
        _mapped(0x5555_0000_1000) + f" 7 cpu-clock:u:      {0x5555_0000_0000 + hot + 4:x}\n" * 2
    )
    _, matched, form = load(tmp_path / "p", prog)
    assert form == "perf-addresses"
    assert named(matched.samples, functions) == {"hot": 2}


def test_other_programs_at_the_same_addresses(prog: Path, tmp_path: Path) -> None:
    """Programs that are not moved lie at the same addresses, as Python's does: a mapping tells whose they are."""
    fixed = prog.with_name("fixed")
    functions = functions_of(fixed)
    hot = functions.starts[functions.by_name["hot"][0]] + 1
    text = functions.image.text_segments[0]
    start, size = text.p_vaddr & -4096, (text.p_vaddr % 4096 + text.p_memsz + 4095) & -4096
    place = f"[{start:#x}({size:#x}) @ {text.p_offset & -4096:#x} fe:00 1 2]: r-xp"

    def maps(pid: int, path: str) -> str:
        return f" {pid} PERF_RECORD_MMAP2 {pid}/{pid}: {place} {path}\n"

    def sampled(pid: int, count: int) -> str:
        return f" {pid} cpu-clock:u:      {hot:x}\n" * count

    ours, library = f"/srv/{fixed.name}", "/lib/libc.so.6"
    events = maps(8, "/usr/bin/py") + sampled(8, 3)
    events += maps(7, ours) + maps(7, library).replace(f"{start:#x}", "0x7f0000000000") + sampled(7, 2)
    events += " 8 PERF_RECORD_FORK(9:9):(8:8)\n" + sampled(9, 1)
    events += (
        " 7 PERF_RECORD_FORK(6:6):(7:7)\n" + maps(6, library).replace(f"{start:#x}", "0x7f0000000000") + sampled(6, 4)
    )
    events += " 7 PERF_RECORD_COMM exec: py:7/7\n" + maps(7, "/usr/bin/py") + sampled(7, 1)
    events += " 8 PERF_RECORD_COMM exec: fixed:8/8\n" + maps(8, ours) + sampled(8, 5)
    (tmp_path / "p").write_text(events)
    _, matched, _ = load(tmp_path / "p", fixed)
    assert (named(matched.samples, functions), matched.foreign) == ({"hot": 11}, 5)


def test_flat_addresses_of_other_programs_are_no_offsets(prog: Path, functions: Functions, tmp_path: Path) -> None:
    """A program that is not moved, such as Python's, has low addresses, at which this file has functions."""
    hot = functions.starts[functions.by_name["hot"][0]]
    mapped = _mapped(0x5555_0000_1000) + f" 7 cpu-clock:u:      {0x5555_0000_0000 + hot + 4:x}\n"
    (tmp_path / "p").write_text(mapped + f" 8 cpu-clock:u:      {hot + 4:x}\n" * 3)
    _, matched, _ = load(tmp_path / "p", prog)
    assert (named(matched.samples, functions), matched.foreign) == ({"hot": 1}, 3)


def test_a_debug_file_of_a_text_that_is_mapped_otherwise(prog: Path, tmp_path: Path) -> None:
    """As `hugealign fix` has it: with what lies before it.  No size tells where the text is, and that is said."""
    debug = tmp_path / "prog.debug"
    subprocess.run(["objcopy", "--only-keep-debug", prog, debug], check=True)
    hot = functions_of(prog).starts[functions_of(prog).by_name["hot"][0]]
    base, size = 0x5579EB1C4000, functions_of(prog).image.text_segments[0].p_memsz + 0x1000
    event = f" 7 PERF_RECORD_MMAP2 7/7: [{base:#x}({size + -size % 4096:#x}) @ 0 fe:00 1 2]: r-xp /srv/prog\n"
    (tmp_path / "p").write_text(event + f" 7 cpu-clock:u:      {base + hot + 3:x}\n" * 4)
    profile, matched, _ = load(tmp_path / "p", debug)
    assert named(matched.samples, functions_of(debug)) == {"hot": 4}
    assert ["no mapping has the size of the text" in note for note in profile.notes] == [True]


@pytest.mark.usefixtures("any_caller")
def test_chain_addresses_are_offsets_in_the_file(prog: Path, functions: Functions, tmp_path: Path) -> None:
    """And those of callers are where the callee returns to: the last byte of a caller may be the call."""
    hot, helper = (functions.starts[functions.by_name[name][0]] for name in ("hot", "helper"))
    end = hot + functions.sizes[functions.at(hot)]
    chain = f" 7 cpu-clock:u: \n\t {helper:x} (/srv/prog)\n\t {end:x} (/srv/prog)\n\t {hot:x} (/lib/libc.so.6)\n\n"
    (tmp_path / "p").write_text(_mapped(0x5555_0000_1000) + chain)
    _, matched, form = load(tmp_path / "p", prog)
    assert form == "perf-addresses"
    assert named(matched.samples, functions) == {"helper@main.c": 1, "hot": 0}
    assert arcs(matched, functions) == {("hot", "helper@main.c"): 1}


def _behind_the_first_call(prog: Path, functions: Functions, start: int) -> int:
    """Return where the first call of the function at *start* returns to."""
    text = functions.image.text_segments[0]
    code = prog.read_bytes()[text.p_offset : text.p_offset + text.p_filesz]
    return text.p_vaddr + code.index(b"\xe8", start - text.p_vaddr) + 5


def test_frames_that_no_call_returns_to(prog: Path, functions: Functions, tmp_path: Path) -> None:
    """As without frame pointers: left out, and said so if they are most."""
    starts = {name: functions.starts[functions.by_name[name][0]] for name in ("hot", "main")}
    behind = _behind_the_first_call(prog, functions, starts["main"])
    chains = f" 7 e: \n\t {starts['hot'] + 1:x} (/srv/prog)\n\t {behind:x} (/srv/prog)\n\n"
    chains += f" 7 e: \n\t {starts['hot'] + 1:x} (/srv/prog)\n\t {starts['main'] + 10:x} (/srv/prog)\n\n"
    (tmp_path / "p").write_text(_mapped(0x5555_0000_1000) + chains)
    profile, matched, _ = load(tmp_path / "p", prog)
    assert arcs(matched, functions) == {("main", "hot"): 1}
    assert profile.notes == []
    (tmp_path / "p").write_text(_mapped(0x5555_0000_1000) + chains.partition("\n\n")[2])
    profile, matched, _ = load(tmp_path / "p", prog)
    assert (named(matched.samples, functions), matched.arcs) == ({"hot": 1}, {})
    assert "1 of 1 frames above the innermost are not callers" in profile.notes[0]


@pytest.mark.parametrize("usual", [True, False], ids=["usual", "beside an event"])
def test_where_the_program_entered_the_kernel(prog: Path, functions: Functions, tmp_path: Path, usual: bool) -> None:
    """At a page fault, say: in a function that has made no call there, and all the same ran."""
    starts = {name: functions.starts[functions.by_name[name][0]] for name in ("hot", "main")}
    behind = _behind_the_first_call(prog, functions, starts["main"])
    kernel = "\tffffffff8158c5e7 ([kernel.kallsyms])\n\tffffffff81000c82 ([kernel.kallsyms])\n"
    inside = f"\t          {starts['hot'] + 1:x} (/srv/prog)\n\t          {behind:x} (/srv/prog)\n"
    samples = f" 7 e: \n{kernel}{inside}\n" + f" 7 e: \n{kernel}\n"
    event = _mapped(0x5555_0000_1000)
    (tmp_path / "p").write_text(event + samples if usual else samples.replace(" 7 e: \n", event + " 7 e: \n"))
    profile, matched, _ = load(tmp_path / "p", prog)
    assert (named(matched.samples, functions), matched.arcs) == ({"hot": 0, "main": 0}, {})
    assert (profile.good, profile.foreign, profile.bad, profile.notes) == (2, 2, 0, [])


def test_addresses_of_old_mappings(prog: Path, functions: Functions, tmp_path: Path) -> None:
    """Linux 3.11 and before tells no device with what is mapped."""
    hot, base = functions.starts[functions.by_name["hot"][0]], 0x5555_0000_0000
    old = f" 7 PERF_RECORD_MMAP 7/7: [{base + 0x1000:#x}(0x1000) @ 0x1000]: x /srv/prog\n"
    (tmp_path / "p").write_text(old + f" 7 e:  {base + hot + 1:x}\n")
    assert named(load(tmp_path / "p", prog)[1].samples, functions) == {"hot": 1}


@pytest.mark.usefixtures("any_caller")
def test_virtual_chain_addresses_are_told_by_their_range(prog: Path, functions: Functions, tmp_path: Path) -> None:
    hot, main = (functions.starts[functions.by_name[name][0]] + 9 for name in ("hot", "main"))
    base = 0x5555_0000_0000
    chain = f" 7 cpu-clock:u: \n\t {base + hot:x} (/srv/prog)\n\t {base + main:x} (/srv/prog)\n\n"
    (tmp_path / "p").write_text(_mapped(base + 0x1000) + chain)
    assert arcs(load(tmp_path / "p", prog)[1], functions) == {("main", "hot"): 1}


@pytest.mark.usefixtures("any_caller")
@pytest.mark.parametrize("symbols", [True, False])
def test_inlined_frames_are_none(prog: Path, functions: Functions, tmp_path: Path, symbols: bool) -> None:
    """As perf prints code with debug information, unless told --no-inline."""
    hot, main = (functions.starts[functions.by_name[name][0]] + 9 for name in ("hot", "main"))
    base = 0x5555_0000_0000
    frames = [(hot, "within", 0), (hot, "hot+0x9", 1), (main, "around+0x2", 0), (main, "main+0x9", 1)]
    chain = "".join(
        f"\t {base + at:x}{' ' + name if symbols else ''} ({'/srv/prog' if whole else 'inlined'})\n"
        for at, name, whole in frames
    )
    (tmp_path / "p").write_text(_mapped(base + 0x1000) + (" 7 cpu-clock:u: \n" + chain + "\n") * 3)
    profile, matched, form = load(tmp_path / "p", prog)
    assert form == ("perf-text" if symbols else "perf-addresses")
    assert arcs(matched, functions) == {("main", "hot"): 3}
    assert named(matched.samples, functions) == {"hot": 3, "main": 0}
    assert profile.good == 3
    assert not profile.foreign + profile.bad


def test_frames_without_an_address(prog: Path, functions: Functions, tmp_path: Path) -> None:
    """Told as such also where the file of the frame is known from others."""
    hot = functions.starts[functions.by_name["hot"][0]]
    leaves = (f"{hot:x}", "zz", "12345678901234567", "1_1", "", f"{hot:x}")
    chains = "".join(f" 7 cpu-clock:u: \n\t {leaf} (/srv/prog)\n\n" for leaf in leaves)
    (tmp_path / "p").write_text(_mapped(0x5555_0000_1000) + chains)
    profile, matched, _ = load(tmp_path / "p", prog)
    assert (profile.bad, profile.foreign) == (4, 4)
    assert named(matched.samples, functions) == {"hot": 2}


@pytest.mark.usefixtures("any_caller")
def test_callers_ran_whoever_they_call(prog: Path, functions: Functions, tmp_path: Path) -> None:
    """A library, or itself; and those that call callers, of each stack; also where branches stand below."""
    hot, main, work, other = (
        functions.starts[functions.by_name[name][0]] + 5 for name in ("hot", "main", "work", "other")
    )
    first = ((hot, "/srv/prog"),)  # by which the process of those that follow is known
    stacks = (first, ((hot, "/lib/libc.so.6"), (work, "/srv/prog")), ((hot, "/srv/prog"), (hot, "/srv/prog")))
    deep = ((hot, "/srv/prog"), (1, "/lib/libc.so.6"), (main, "/srv/prog"), (other, "/srv/prog"))
    chains = "".join(
        " 7 cpu-clock:u: \n" + "".join(f"\t {at:x} ({path})\n" for at, path in stack) + "\n"
        for stack in (*stacks, deep)
    )
    (tmp_path / "p").write_text(_mapped(0x5555_0000_1000) + chains)
    profile, matched, _ = load(tmp_path / "p", prog)
    assert named(matched.samples, functions) == {"hot": 3, "work": 0, "main": 0, "other": 0}
    assert (matched.arcs, profile.foreign, profile.bad) == ({}, 1, 0)
    source, target = (0x5555_0000_0000 + at for at in (main, hot - 5))
    branch = f" 7 cpu-clock:u: \n\t {hot:x} (/srv/prog)\n 0x{source:x}/0x{target:x}/P/-/-/1\n\n"
    (tmp_path / "p").write_text(_mapped(0x5555_0000_1000) + chains + branch)
    profile, matched, _ = load(tmp_path / "p", prog)
    assert (arcs(matched, functions), profile.bad) == ({("main", "hot"): 1}, 0)


def test_each_process_has_its_own_addresses(prog: Path, functions: Functions, tmp_path: Path) -> None:
    """Two runs, one forked, then a new program in the first."""
    hot, main = (functions.starts[functions.by_name[name][0]] for name in ("hot", "main"))
    one, two = 0x5555_0000_0000, 0x5666_0000_0000
    (tmp_path / "p").write_text(
        _mapped(one + 0x1000) + _mapped(two + 0x1000, 8)
        + f" 7 e:  {one + hot:x}\n 8 e:  {two + main:x}\n 8 e:  {one + hot:x}\n"
        + f" 9 PERF_RECORD_FORK(9:9):(7:7)\n 9 e:  {one + hot:x}\n"
        + f" 7 PERF_RECORD_COMM exec: other:7/7\n 7 e:  {one + hot:x}\n"
    )  # fmt: skip
    _, matched, _ = load(tmp_path / "p", prog)
    assert named(matched.samples, functions) == {"hot": 2, "main": 1}
    assert matched.foreign == 2


def test_a_number_that_another_process_had_before(prog: Path, functions: Functions, tmp_path: Path) -> None:
    """What a sample meant is forgotten when its process comes to have the program, by a fork or by itself."""
    base = 0x5555_0000_0000
    hot = functions.starts[functions.by_name["hot"][0]]
    samples = f" 9 e:  {base + hot:x}\n" * 3 + f" 8 e:  {base + hot:x}\n" * 3
    (tmp_path / "p").write_text(
        _mapped(base + 0x1000)
        + samples
        + " 7 PERF_RECORD_FORK(9:9):(7:7)\n"
        + samples
        + _mapped(base + 0x1000, 8)
        + samples
    )
    _, matched, _ = load(tmp_path / "p", prog, "perf-addresses")
    assert named(matched.samples, functions) == {"hot": 9}
    assert matched.foreign == 9


def test_branch_addresses(prog: Path, functions: Functions, tmp_path: Path) -> None:
    """Written by hand after perf's sample__fprintf_brstack: there is no branch recorder here."""
    hot, main = (functions.starts[functions.by_name[name][0]] for name in ("hot", "main"))
    base = 0x5555_0000_0000
    call = f"{base + main + 5:#x}/{base + hot:#x}/P/-/-/12"
    line = f" 7 cycles:u:  {base + hot:x}  {call}  {base + hot + 9:#x}/{base + hot + 2:#x}/M/-/-/0\n"
    (tmp_path / "p").write_text(_mapped(base + 0x1000) + line * 4)
    _, matched, form = load(tmp_path / "p", prog)
    assert form == "perf-addresses"
    assert named(matched.samples, functions) == {"main": 4, "hot": 4}
    assert matched.arcs == {(functions.at(main), functions.at(hot), 5): 4}


def test_addresses_without_a_mapping(prog: Path, tmp_path: Path) -> None:
    """A program that is not moved needs none."""
    (tmp_path / "p").write_text(" 7 cpu-clock:u:      5579eb1c408c\n")
    with pytest.raises(ProfileError, match="show-mmap-events"):
        load(tmp_path / "p", prog)
    fixed = prog.with_name("fixed")
    start = functions_of(fixed).starts[functions_of(fixed).by_name["hot"][0]]
    (tmp_path / "p").write_text(f" 7 cpu-clock:u:      {start + 1:x}\n")
    assert named(load(tmp_path / "p", fixed)[1].samples, functions_of(fixed)) == {"hot": 1}


# Matching by name.


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hot", "hot"),
        ("hot.constprop.0", "hot"),
        ("hot.isra.0.part.3", "hot"),
        ("hot.llvm.123456", "hot"),
        ("hot.cold", "hot"),
        ("hot.lto_priv.7/1", "hot"),
        ("helper/2", "helper@other.c"),
        ("helper/other.c/1", "helper@other.c"),
        ("helper/9", "helper@main.c"),  # another build had more of them
        ("helper.5", "helper@main.c"),
        ("hot.cold.5", "hot"),
        ("hot.html", None),
        ("hotter", None),
    ],
)
def test_names(prog: Path, functions: Functions, tmp_path: Path, name: str, expected: str | None) -> None:
    (tmp_path / "p").write_text(f"{name} 1\n")
    _, matched, _ = load(tmp_path / "p", prog, "folded")
    assert list(named(matched.samples, functions)) == ([expected] if expected else [])


# Hostile and damaged input.


@pytest.mark.parametrize(
    ("form", "line", "reads"),
    [
        ("folded", "main -5", 0),
        ("folded", "main 1e5", 0),
        ("folded", "main 9223372036854775807", 1),
        ("folded", "main 9223372036854775808", 0),
        ("folded", "main " + "9" * 400, 0),
        ("folded", "a\x1b[31m;'\"*() ; main 3", 1),
        ("folded", "main;" * 1000 + "main 2", 1),
        ("folded", "x" * (1 << 20) + " 4", 1),
        ("folded", "x" * (9 << 20) + " 4", 0),
        ("fdata", "1 main 0 1 main zz 0 1", 0),
        ("fdata", "1 main 0 1 main 0 0 -1", 0),
        ("fdata", "9 main 0 1 main 0 0 1", 0),
        ("fdata", "1 main\\", 0),
        ("fdata", "1 new\\\\line\\ x 0 1 main 0 0 18446744073709551616", 0),
        ("callgrind", "calls=x", 0),
        ("callgrind", "fn=(77)", 0),
        ("perf-text", "\tno frame", 0),
        ("perf-addresses", "\tno frame", 0),
    ],
)
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
def test_cycles(prog: Path, functions: Functions, tmp_path: Path, form: str, text: str) -> None:
    """Functions that call each other, and themselves: each is placed once."""
    (tmp_path / "p").write_text(text)
    _, matched, result = load(tmp_path / "p", prog)
    calls = arcs(matched, functions)
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
    ],
)
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


def test_the_fuzzers_have_a_sample_of_each_format_that_we_read(functions: Functions) -> None:
    assert {detect(sample) for sample in corpus(functions).values()} >= {*WITHOUT_TOOLS}


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
