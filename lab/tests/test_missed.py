"""What `order` says that a profile has missed, held against full traces of real programs."""

import bisect
import json
import random
import subprocess
from collections import Counter
from itertools import accumulate
from pathlib import Path

import pytest

from hugealign.profile.missing_mass import halving, unseen
from hugealign_lab.ran import traced
from tests.build.manual import emulates
from tests.support import HUGEALIGN, run

#: Programs that every machine of these tests has, each with work that takes it through many functions.
PROGRAMS = {
    "perl": [
        "perl",
        "-e",
        "my %h = map {$_*7 => join ',', map sqrt, 1..$_%5} 1..3000; print scalar grep /9/, sort keys %h",
    ],
    "cc1": ["cc1", "-quiet", "-O2", "main.c", "-o", "main.s"],
    "bash": [
        "bash",
        "-c",
        "for i in {1..300}; do x=${x/1/2}$i; [[ $x =~ 9+ ]] && printf '%d' $((i*3)); done; declare -p x",
    ],
}
SOURCE = """
struct s { int a; struct s *next; };
int sum(struct s *p) { int n = 0; for (; p; p = p->next) if (p->a & 3) n += p->a; else n ^= 5; return n; }
double poly(const double *c, int n, double x) { double y = 0; while (n--) y = y * x + c[n]; return y; }
"""
DRAWS = 20


@pytest.mark.parametrize("name", ["perl", *(pytest.param(n, marks=pytest.mark.matrix) for n in ("cc1", "bash"))])
def test_what_is_missed_is_what_was_said(name: str, tmp_path: Path) -> None:
    """Of samples drawn from a trace: the interval holds nearly always, the number that halves it within a factor."""
    if not emulates():
        pytest.skip("no QEMU that takes plugins")
    words = [*PROGRAMS[name]]
    if name == "cc1":
        (tmp_path / "main.c").write_text(SOURCE)
        words[0] = subprocess.run(
            ["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=True
        ).stdout.strip()
    run(HUGEALIGN, "trace", "-o", tmp_path / "trace", "--", *words, cwd=tmp_path, check=True)
    samples = [count for count in traced(str(tmp_path / "trace")).ran.matched.samples.values() if count]
    assert len(samples) > 250
    ends, total = list(accumulate(samples)), sum(samples)
    chance = random.Random(27)
    for drawn in (1000, 10_000):
        within, output = 0, []
        for _ in range(DRAWS):
            hits = Counter(bisect.bisect_right(ends, chance.randrange(total)) for _ in range(drawn))
            true = 1 - sum(samples[index] for index in hits) / total
            result = unseen(hits.values())
            within += result.low <= true <= result.high
            output.append(halving(hits.values()) or 1.0)
        assert within >= DRAWS * 0.85, (drawn, within)
        goal, needed = _missed(samples, drawn) / 2, 1.0
        while _missed(samples, drawn * needed) > goal:
            needed *= 1.02
        middle = sorted(output)[DRAWS // 2]
        print(f"\n{name}, {drawn} samples: {_missed(samples, drawn):.2%} missed; {within} of {DRAWS} within; halved by")
        print(f"{needed:.2f} times as many; said {min(output):.2f} to {max(output):.2f}, {middle:.2f} in the middle")
        assert needed / 1.8 < middle < needed * 1.8, (drawn, middle, needed)


def _missed(samples: list[int], drawn: float) -> float:
    """Return what so many samples miss on average."""
    total = sum(samples)
    return sum(count / total * float((1 - count / total) ** drawn) for count in samples)


def test_order_says_it(tmp_path: Path) -> None:
    """In a sentence and in the document; not of lists, nor of what counted everything."""
    program = tmp_path / "prog"
    (tmp_path / "main.c").write_text(
        "".join(f"int f{n}(int x) {{ return x * {n + 3}; }}\n" for n in range(40)) + "int main(void) { return 0; }\n"
    )
    subprocess.run(["gcc", "-O1", tmp_path / "main.c", "-o", program], check=True)
    lines = "".join(f"f{number} {1 + 3 * (number % 4)}\n" for number in range(40))
    (tmp_path / "p").write_text(lines)
    done = run(HUGEALIGN, "order", tmp_path / "p", "-b", program, check=True)
    assert "\nmissed   about 4.5 % (" in done.stdout
    assert " of what runs is in functions that no sample hit; " in done.stdout
    words = [HUGEALIGN, "order", "-b", program, "--json"]
    assert json.loads(run(*words, tmp_path / "p", check=True).stdout)["missed"]["share"] == 10 / 220
    (tmp_path / "list").write_text("".join(f"f{number} 1\n" for number in range(9)))
    assert json.loads(run(*words, tmp_path / "list", check=True).stdout)["missed"] is None
