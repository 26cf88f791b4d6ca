"""Counts of one release read for another: by name, and where names are gone by what functions do."""

import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from hugealign.code.digests import digests
from hugealign.elf.symbols import read_functions
from hugealign.profile import counts
from hugealign.profile.counted import read
from hugealign.profile.model import Profile
from hugealign.profile.source import ProfileSource
from tests.commands.profiles import addressed
from tests.support import HUGEALIGN, run

FUNCTIONS = 12
AARCH64 = shutil.which("aarch64-linux-gnu-gcc")
COMPILERS = ["gcc", pytest.param("aarch64-linux-gnu-gcc", marks=pytest.mark.skipif(not AARCH64, reason="no compiler"))]


def _source(release: int) -> str:
    """Return a program: each function does something of its own, calls others and uses data; the second has more."""
    lines = ["extern volatile long data[99]; volatile long data[99];"]
    if release > 1:
        lines.append("long extra(long x) { for (int i = 0; i < x; i++) data[i % 9] += x; return data[5]; }")
    for n in range(FUNCTIONS):
        name = f"work{n}" if release == 1 or n % 2 else f"renamed{n}"
        call = lines and n and (f"work{n - 1}" if release == 1 or n % 2 == 0 else f"renamed{n - 1}")
        body = f"long s = {n + 3}; for (long i = 0; i < x; i++) {{ s += i * {n + 7}; data[s % {n + 20}] ^= s; }}"
        body += f" return s + {call}(s & 3);" if call else " return s;"
        lines.append(f"__attribute__((noinline, noclone)) long {name}(long x) {{ {body} }}")
    last = f"work{FUNCTIONS - 1}"
    lines.append(f"int main(int c, char **v) {{ return (int)({last}(c) {'+ extra(c)' if release > 1 else ''}); }}")
    return "\n".join(lines)


def _build(directory: Path, release: int, cc: str = "gcc") -> Path:
    directory.mkdir()
    (directory / "p.c").write_text(_source(release))
    words = [cc, "-O2", "-fno-optimize-sibling-calls", "-Wl,--build-id", "-nostartfiles", "-nostdlib", "-e", "main"]
    subprocess.run([*words, "p.c", "-o", "server"], cwd=directory, check=True)
    return directory / "server"


@pytest.mark.parametrize("cc", COMPILERS)
def test_code_is_the_same_wherever_it_lies(cc: str, tmp_path: Path) -> None:
    result = []
    for release in (1, 2):
        program = _build(tmp_path / str(release), release, cc)
        functions = read_functions(program)
        of = digests(program, functions, range(len(functions)))
        result.append({functions.names[index]: digest for index, digest in of.items()})
    for n in range(FUNCTIONS):
        old, new = result[0][f"work{n}"], result[1][f"work{n}" if n % 2 else f"renamed{n}"]
        assert old == new, n
    assert len(set(result[0].values())) == len(result[0])


def test_a_new_release_is_ordered_by_an_old_ones_counts(tmp_path: Path) -> None:
    """Half of the names are gone; of a stripped file all."""
    old, new = (_build(tmp_path / str(release), release) for release in (1, 2))
    functions = read_functions(old)
    at = {name: functions.starts[indices[0]] for name, indices in functions.by_name.items()}
    (tmp_path / "p").write_bytes(addressed(old, {at[f"work{n}"]: 10 * n + 10 for n in range(FUNCTIONS)}))
    stripped = tmp_path / "stripped" / "server"
    stripped.parent.mkdir()
    subprocess.run(["strip", old, "-o", stripped], check=True)
    for source in (old, stripped):
        run(HUGEALIGN, "profile", "reduce", tmp_path / "p", "-b", source, "-o", tmp_path / "c", check=True)
        done = run(HUGEALIGN, "order", tmp_path / "c", "-b", new, "--json", "-o", tmp_path / "order", check=True)
        samples = json.loads(done.stdout)["samples"]
        total = sum(10 * n + 10 for n in range(FUNCTIONS))
        assert (samples["matched"], samples["total"]) == (total, total)
        build = {"build_id": functions.build_id, "total": total, "matched": total, "guessed": 0, "trust": 0.0}
        assert samples["builds"] == [build]
        text = (tmp_path / "order").read_text()
        for n in range(FUNCTIONS):
            assert f"{f'work{n}' if n % 2 else f'renamed{n}'}\tsamples={10 * n + 10}\n" in text
    # Without their digests, the renamed are lost, and `order` says of which build.
    mine = counts.parse((tmp_path / "c").read_bytes())
    plain = {head: {b"\t".join(key.split(b"\t")[:4]) + b"\t" if key[:1] == b"f" else key: count
                    for key, count in some.items()} for head, some in mine.items()}  # fmt: skip
    run(HUGEALIGN, "profile", "reduce", tmp_path / "p", "-b", old, "-o", tmp_path / "named", check=True)
    named = counts.parse((tmp_path / "named").read_bytes())
    bare = {head: {key[:-16] if key[:1] == b"f" and key[-16:].isalnum() else key: count
                   for key, count in some.items()} for head, some in named.items()}  # fmt: skip
    for some, share in ((bare, sum(10 * n + 10 for n in range(1, FUNCTIONS, 2)) / total), (plain, 0.0)):
        (tmp_path / "c").write_bytes(counts.write(some))
        done = run(HUGEALIGN, "order", tmp_path / "c", "-b", new, "--force")
        if share:
            assert (
                f"build    {int(10000 * share) / 100:.2f} % of {total} of build {functions.build_id}\n" in done.stdout
            )
        else:
            assert done.returncode == 1


def test_two_functions_that_do_the_same_are_nobody(tmp_path: Path) -> None:
    """In either file: neither is guessed."""
    new = _build(tmp_path / "new", 2)
    functions = read_functions(new)
    code = digests(new, functions, range(len(functions)))
    index = functions.by_name["work1"][0]
    for keys, result in (
        ([counts.function(1, "gone", "", code[index])], 1),
        ([counts.function(1, "gone", "", code[index]), counts.function(2, "gone2", "", code[index])], 0),
    ):
        profile = Profile()
        made = counts.write({counts.head("ab" * 20, "server"): dict.fromkeys(keys, 5)})
        read(ProfileSource(io.BytesIO(made), "c", functions, str(new)), profile)
        assert sum(place == index for place in profile.samples) == result
