"""``hugealign profile``, as a command and as functions, on the profiles of a real program."""

import gzip
import json
import shutil
import subprocess
from pathlib import Path

import pytest

import hugealign
from hugealign.elf.symbols import read_functions
from hugealign.errors import HugealignError
from hugealign.profile import counts
from tests.commands.profiles import SAMPLES, addressed, arcs, functions_of, load, named
from tests.support import HUGEALIGN, run

PROFILES = sorted(path for path in SAMPLES.iterdir() if path.suffix in (".txt", ".fdata"))


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.name)
def test_counts_say_what_the_profile_says(profile: Path, prog: Path, tmp_path: Path) -> None:
    made = tmp_path / "host.counts"
    run(HUGEALIGN, "profile", "reduce", profile, "-b", prog, "-o", made, check=True)
    functions = functions_of(prog)
    _, before, _ = load(profile, prog)
    _, after, form = load(made, prog)
    assert form == "counts"
    assert named(after.samples, functions) == named(before.samples, functions)
    assert arcs(after, functions) == arcs(before, functions)
    assert (after.total, after.hits, after.foreign) == (before.total, before.hits, before.foreign)


def test_an_order_of_counts_is_that_of_the_profile(prog: Path, tmp_path: Path) -> None:
    for form in ("prog.fdata", "addresses"):
        profile = SAMPLES / form
        if form == "addresses":
            functions = read_functions(prog)
            at = {name: functions.starts[functions.by_name[name][0]] for name in ("main", "hot", "work")}
            profile = tmp_path / form
            profile.write_bytes(addressed(prog, {at["main"]: 7, at["work"]: 9}, calls={(at["main"], at["hot"]): 7}))
        run(HUGEALIGN, "profile", "reduce", profile, "-b", prog, "-o", tmp_path / "c.gz", check=True)
        orders = []
        for source in (profile, tmp_path / "c.gz"):
            run(HUGEALIGN, "order", source, "-b", prog, "-o", tmp_path / "o", check=True)
            orders.append([line for line in (tmp_path / "o").read_text().splitlines() if "# profile: " not in line])
        assert orders[0] == orders[1]
        assert (functions_of(prog).build_id in gzip.decompress((tmp_path / "c.gz").read_bytes()).decode()) == (
            form == "addresses"
        )


def test_blocks_add_up(prog: Path, tmp_path: Path) -> None:
    """What ran within functions is there on request, by addresses of that very build."""
    start = read_functions(prog).starts[read_functions(prog).by_name["hot"][0]]
    runs, jumps = {(start, start + 10): 7, (start + 5, start + 10): 2}, {(start + 4, start): 7}
    (tmp_path / "p").write_bytes(addressed(prog, {start: 9}, runs, jumps))
    words = [HUGEALIGN, "profile", "reduce", tmp_path / "p", "-b", prog]
    assert "\nr\t" not in run(*words, check=True).stdout
    run(*words, "--blocks", "-o", tmp_path / "c", check=True)
    run(HUGEALIGN, "profile", "merge", tmp_path / "c", tmp_path / "c", "-o", tmp_path / "both", check=True)
    from hugealign.profile.model import Flow
    from hugealign.profile.ran import what_ran

    flows = [Flow(), Flow()]
    what_ran(str(prog), [str(tmp_path / "p")] * 2, flow=flows[0])
    what_ran(str(prog), [str(tmp_path / "both")], flow=flows[1])
    assert flows[0].runs
    for part in ("runs", "jumps", "returns"):
        assert getattr(flows[0], part) == getattr(flows[1], part)


def test_another_build_by_name(prog: Path, tmp_path: Path) -> None:
    """Counts of a build with addresses fit another of the same name by the names; a library's are foreign."""
    functions = read_functions(prog)
    mine = {counts.function(functions.starts[i] + 64, functions.names[i], ""): 5 for i in range(3)}
    other = {counts.function(9, "elsewhere", ""): 7}
    (tmp_path / "c").write_bytes(counts.write({b"ab" * 20 + b"\tprog": mine, b"cd" * 20 + b"\tlibc.so.6": other}))
    _, matched, _ = load(tmp_path / "c", prog)
    assert sum(matched.samples.values()) == matched.hits == 15
    assert matched.foreign == 7


def test_what_cannot_be_read_is_refused_or_named(prog: Path, tmp_path: Path) -> None:
    good, out = tmp_path / "good", tmp_path / "out"
    run(HUGEALIGN, "profile", "reduce", SAMPLES / "prog.fdata", "-b", prog, "-o", good, check=True)
    bad = {
        "cut": good.read_bytes()[:-30],
        "foreign\x1b[1m": b"PNG",
        "newer": good.read_bytes().replace(b"counts/1", b"counts/2"),
        "flipped": good.read_bytes().replace(b"hot", b"hut"),
        "empty": b"",
        "cut.gz": gzip.compress(good.read_bytes())[:-9],
    }
    for name, data in bad.items():
        (tmp_path / name).write_bytes(data)
    paths = [tmp_path / name for name in bad]
    for path in [*paths, tmp_path / "missing", tmp_path]:
        done = run(HUGEALIGN, "profile", "merge", good, path, "-o", out)
        assert (done.returncode, done.stderr.count("\n"), out.exists()) == (3, 1, False), done
        assert "\x1b" not in done.stderr
    done = run(HUGEALIGN, "profile", "merge", "--keep-going", good, *paths, good, "-o", out)
    assert (done.returncode, done.stderr.count("; skipped\n")) == (1, len(bad))
    assert "newer: has counts of version '2'" in done.stderr
    assert done.stderr.endswith("warning: 6 of 8 files skipped\n")
    assert counts.parse(out.read_bytes())[b"-\tprog"][b"hosts"] == 2
    done = run(HUGEALIGN, "profile", "merge", "--keep-going", *paths)
    assert (done.returncode, done.stdout) == (3, "")
    for words in (["--weight", "x"], ["--weight", "=3"], ["--weight", "a=-1"], ["--cap", "x"]):
        assert run(HUGEALIGN, "profile", "merge", good, *words).returncode == 2


def test_nothing_leaves_a_host_but_names_of_symbols(prog: Path, tmp_path: Path) -> None:
    """No path, no argument, no name that only the profile has."""
    home = tmp_path / "home" / "secret-user"
    home.mkdir(parents=True)
    program = Path(shutil.copy(prog, home / "prog"))
    (home / "p").write_text(
        "prog;main;hot;/home/secret-user/letter.py:read 3\nprog;main;hot;helper 9\n--token=xyzzy;main 2\n"
    )
    for profile in (home / "p", SAMPLES / "prog.fdata", SAMPLES / "stacks.txt"):
        text = run(HUGEALIGN, "profile", "reduce", profile, "-b", program, check=True).stdout
        assert not any(word in text for word in ("secret", "letter", "xyzzy", str(tmp_path)))
        known = read_functions(program).by_name
        for key in counts.parse(text.encode())[b"-\tprog"]:
            kind, *words = key.split(b"\t")
            if kind == b"f":
                assert counts.name_of(words[1]) in known
    assert "outside\t3\n" in run(HUGEALIGN, "profile", "reduce", home / "p", "-b", program, check=True).stdout


@pytest.mark.skipif(not shutil.which("perf"), reason="no perf")
def test_a_recording_of_two_builds(tmp_path: Path) -> None:
    """Two builds that ran are two sections; each has its own build-id and addresses."""
    source = "static volatile long x; __attribute__((noinline)) void spin(void){for(long i=0;i<100000000;i++)x+=i;}"
    result = []
    for number in (1, 2):
        text = source + f"int main(void){{spin();return {number}-{number};}}"
        subprocess.run(
            ["gcc", "-O1", "-Wl,--build-id", "-xc", "-", "-o", tmp_path / f"server{number}"],
            input=text, text=True, check=True,
        )  # fmt: skip
        words = ["perf", "record", "-q", "-e", "cpu-clock:u", "-F", "999", "-o", f"{tmp_path}/{number}.data"]
        subprocess.run([*words, f"{tmp_path}/server{number}"], check=True)
        result.append(read_functions(tmp_path / f"server{number}").build_id)
    data = [tmp_path / "1.data", tmp_path / "2.data"]
    run(HUGEALIGN, "profile", "reduce", *data, "-o", tmp_path / "host", check=True)
    made = counts.parse((tmp_path / "host").read_bytes())
    ours = {head: mine for head, mine in made.items() if b"server" in head}
    assert sorted(head.split(b"\t")[0].decode() for head in ours) == sorted(result)
    for head, mine in ours.items():
        functions = read_functions(tmp_path / head.split(b"\t")[1].decode())
        spin = functions.starts[functions.by_name["spin"][0]]
        assert sum(count for key, count in mine.items() if key.startswith(b"f\t%x\tspin\t" % spin)) > 5


def test_the_functions_are_public(prog: Path, tmp_path: Path) -> None:
    options = hugealign.ReduceOptions()
    made = hugealign.reduce_profiles([str(SAMPLES / "prog.fdata")], [str(prog)], options)
    assert made.sources == [(str(SAMPLES / "prog.fdata"), "fdata")]
    (tmp_path / "c").write_bytes(counts.write(made.counts))
    merged = hugealign.merge_counts([str(tmp_path / "c")] * 3, hugealign.MergeOptions())
    assert merged.files == 3
    report = run(HUGEALIGN, "order", tmp_path / "c", "-b", prog, "--json", check=True).stdout
    assert json.loads(report)["profiles"][0]["format"] == "counts"
    with pytest.raises(HugealignError):
        hugealign.reduce_profiles([str(tmp_path / "missing")], [str(prog)])
