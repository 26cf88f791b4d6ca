"""Profiles larger than memory: streamed in a few MiB, and ended where what differs in them is more than any program."""

import io
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hugealign.profile import model, perf_addresses
from hugealign.profile.model import ProfileError
from tests.commands.profiles import build, functions_of, load
from tests.support import HUGEALIGN

SIZE = int(os.environ.get("HUGEALIGN_TEST_STREAM", str(300 << 20)))  # bytes
#: Of address space, Python's own 40 MiB included, and what is remembered of samples without symbols.
MEMORY = 256 << 20
WRITER = """
import sys
path, begin, again, times = sys.argv[1:]
at_once = max(1, (1 << 20) // len(again))
with open(path, "wb") as out:
    out.write(begin.encode())
    for _ in range(int(times) // at_once):
        out.write(again.encode() * at_once)
    out.write(again.encode() * (int(times) % at_once))
"""


@pytest.fixture(scope="module")
def prog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("prog"))


def mapped(pid: int) -> str:
    return f" {pid} PERF_RECORD_MMAP2 {pid}/{pid}: [0x555500001000(0x1000) @ 0x1000 fe:00 1 2]: r-xp /srv/prog\n"


def stream(name: str, prog: Path) -> tuple[str, str, int]:
    """Return how a file of a format begins, what then comes again and again, and the samples in that."""
    functions = functions_of(prog)
    hot, main = (functions.starts[functions.by_name[of][0]] for of in ("hot", "main"))
    if name == "folded":
        deep = ";".join(["main", "hot", "work"] * 20)
        return "", f"prog;{deep} 3\nprog;{deep};{deep};do_syscall_64_[k] 1\n", 4
    if name == "perf-text":
        frames = "\t    401156 main+0x9 (/srv/prog)\n" * 20
        return "", f"prog 7 1.0: 1 cpu-clock:u: \n\t    401136 hot+0x4 (/srv/prog)\n{frames}\n", 1
    if name == "chains":
        frames = f"\t {main + 1:x} (/srv/prog)\n" * 20
        return mapped(7), f" 7 cpu-clock:u: \n\t {hot:x} (/srv/prog)\n{frames}\n", 1
    return mapped(7), "".join(f" 7 cpu-clock:u:      {0x5555_0000_0000 + hot + at:x}\n" for at in range(8)), 8


@pytest.mark.parametrize(
    "name", [pytest.param("folded", marks=pytest.mark.matrix), "perf-text", "perf-addresses", "chains"]
)
def test_a_stream_larger_than_memory(prog: Path, tmp_path: Path, name: str) -> None:
    """Through a FIFO, so that all of it is nowhere at once; every sample is counted."""
    begin, again, samples = stream(name, prog)
    fifo, times = tmp_path / "fifo", SIZE // len(again)
    os.mkfifo(fifo)
    with subprocess.Popen([sys.executable, "-c", WRITER, fifo, begin, again, str(times)]) as writer:
        done = subprocess.run(
            [HUGEALIGN, "order", fifo, "-b", prog, "--json"],
            capture_output=True, text=True, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        )  # fmt: skip
        writer.kill()
    assert (done.returncode, done.stderr) == (0, "")
    counted = json.loads(done.stdout)["samples"]
    assert counted["total"] + counted["foreign"] == times * samples


@pytest.mark.parametrize("chained", [False, True])
def test_what_samples_mean_is_not_remembered_without_end(
    prog: Path, monkeypatch: pytest.MonkeyPatch, chained: bool
) -> None:
    """What is known of them is forgotten now and then, and counts stay right; also of samples that are not usual."""
    functions = functions_of(prog)
    hot = functions.starts[functions.by_name["hot"][0]]
    places = [0x5555_0000_0000 + hot + (at % 2 and at << 20) for at in range(200_000)]
    if chained:  # each line of a sample has its time
        lines = [f" 7 1.{at}: \n\t {place:x}\n\t {at:x} (x)\n\n" for at, place in enumerate(places)]
    else:
        lines = [f" 7 e:      {place:x}\n" for place in places]
    text = (mapped(7) + "".join(lines)).encode()
    found, known = [], []
    for limit in (perf_addresses._KINDS_LIMIT, 1 << 20):
        monkeypatch.setattr(perf_addresses, "_KINDS_LIMIT", limit)
        profile = model.Profile()
        reader = perf_addresses.AddressReader(profile, functions, b"/srv/prog".__eq__)
        most = [0]

        def settle(reader: perf_addresses.AddressReader = reader, most: list[int] = most) -> None:
            most.append(len(reader.kinds) + sum(len(space.above) for space in reader.above))
            perf_addresses.AddressReader._settle(reader)

        monkeypatch.setattr(reader, "_settle", settle)
        reader.read(io.BytesIO(text))
        known.append(max(most))
        found.append((profile.samples, profile.good, profile.bad, profile.foreign))
    assert found[0] == found[1] == ({functions.at(hot): 100_000}, 200_000, 0, 100_000)
    assert known[0] > 100_000
    assert known[1] < 50_000


#: For each reader that keeps something of what it reads, a line that is different with each number.
DIFFERENT: dict[str, Callable[[int], str]] = {
    "folded": "f{};main 1\n".format,
    "symbols": "f{}\n".format,
    "fdata": "1 main {:x} 1 hot/1 0 0 1\n".format,
    "callgrind": "fn=({0}) f{0}\n".format,
    "profdata-text": "  f{}:\n    Function count: 5\n".format,
    "order": "f{}\n".format,
    "perf-text": "prog 7 1.0: 1 e: 401136 f{}+0x1 (/srv/prog)\n".format,
    "gcov": '{{"files": [{{"file": "a.c", "functions": [{{"name": "f{}", "execution_count": 5}}]}}]}}\n'.format,
    "bolt-yaml": "  - name: f{0}\n    fid: {0}\n".format,
    "perf-addresses": mapped,
}
BEGIN = {
    "order": "# hugealign.order/1\n",
    "callgrind": "ob=prog\n",
    "bolt-yaml": "header:\n  profile-version: 1\nfunctions:\n",
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_without_end_is_refused(
    prog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Every reader counts what it keeps."""
    monkeypatch.setattr(model, "_ROOM", 1 << 16)
    with (tmp_path / "p").open("w") as file:
        file.write(BEGIN.get(name, ""))
        file.writelines(DIFFERENT[name](number) for number in range(1, 1000))
    with pytest.raises(ProfileError, match="not a profile of one program"):
        load(tmp_path / "p", prog, name)


def test_a_yaml_function_without_end_is_refused(prog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("yaml", reason="no PyYAML")
    monkeypatch.setattr("hugealign.profile.bolt_yaml._NODES_LIMIT", 100)
    blocks = "    - bid: 1\n      exec: 1\n" * 50
    (tmp_path / "p").write_text(f"header:\n  profile-version: 1\nfunctions:\n  - name: main\n    blocks:\n{blocks}")
    with pytest.raises(ProfileError, match="more than 100 values"):
        load(tmp_path / "p", prog)
