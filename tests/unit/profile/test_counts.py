"""The form of profiles that adds up: one file for equal counts, whatever way they were added; no damage unseen."""

import gzip
import random
import zlib
from collections import Counter
from pathlib import Path

import pytest

from hugealign.errors import HugealignError, UsageError
from hugealign.profile import counts
from hugealign.profile.counts import Counts
from hugealign.profile.merge import MergeOptions, merge_counts
from hugealign.profile.model import ProfileError
from tests.support import ROOT

_SMALL: Counts = {b"ab\tx": {b"f\t1\tmain\t\t": 7, b"hosts": 1}, b"-\tx": {b"f\t\tb\t\t": 0}}


def added(*parts: Counts) -> Counts:
    """Add up by the definition."""
    total: Counts = {}
    for part in parts:
        for head, mine in part.items():
            for key, count in mine.items():
                total.setdefault(head, {}).setdefault(key, 0)
                total[head][key] += count
            total.setdefault(head, {})
    return total


def merged(directory: Path, *parts: Counts, options: MergeOptions | None = None) -> Counts:
    paths = []
    for number, part in enumerate(parts):
        paths.append(str(directory / f"{number}.counts"))
        Path(paths[-1]).write_bytes(counts.write(part))
    return merge_counts(paths, options or MergeOptions()).counts


def test_no_byte_can_be_another() -> None:
    """Each byte of a file, changed or left out, and each cut: none of these is read."""
    data = counts.write(_SMALL)
    assert counts.parse(data) == _SMALL
    damaged = [data[:at] for at in range(len(data))]
    damaged += [data[:at] + data[at + 1 :] for at in range(len(data))]
    damaged += [data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :] for at in range(len(data)) for bit in (1, 32)]
    for item in [*damaged, data + b"\n", data + data]:
        with pytest.raises(ProfileError):
            counts.parse(item)


@pytest.mark.parametrize(
    "lines",
    [
        b"build\tab\tx\nf\t1\tb\t\t\t1\nf\t1\ta\t\t\t1\n",  # out of order
        b"build\tab\tx\nf\t1\ta\t\t\t1\nf\t1\ta\t\t\t1\n",  # twice
        b"build\tab\tx\nf\t01\ta\t\t\t1\n",  # two ways to write a number would be two lines for one function
        b"build\tab\tx\nf\t1\ta\t\t\t-1\n",
        b"build\tab\tx\nf\t1\ta\t\t\t1000000000000000000\n",
        b"build\tab\tx\nf\t\t\t\t\t1\n",  # neither address nor name
        b"build\tab\tx\nnews\t1\n",
        b"build\tab\tx/y\nhosts\t1\n",  # a path
        b"build\tAB\tx\nhosts\t1\n",
        b"build\tab\tx\nhosts\t1\nbuild\tab\tx\nhosts\t1\n",
        b"hosts\t1\n",
        b"build\tab\tx\n" + b"\t" * 100_000 + b"\n",
    ],
)
def test_a_line_that_means_nothing_is_refused(lines: bytes, tmp_path: Path) -> None:
    """However right its checksum is."""
    data = counts.MAGIC + lines
    data += b"# end: %d %08x\n" % (data.count(b"\n"), zlib.crc32(data))
    with pytest.raises(ProfileError):
        counts.parse(data)
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_bytes(counts.write(_SMALL))
    bad.write_bytes(data)
    with pytest.raises(HugealignError):
        merge_counts([str(good), str(bad)])
    merged = merge_counts([str(bad), str(good)], MergeOptions(keep_going=True))
    assert (merged.counts, merged.files, [path for path, _ in merged.skipped]) == (_SMALL, 1, [str(bad)])


def test_files_larger_than_a_piece(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is read in pieces is the same, and a line across their border is one."""
    some = {b"ab\tx": {counts.function(n, f"name{n}", ""): n for n in range(300)}}
    data = counts.write(some)
    for size in (1, 7, 100, len(data)):
        monkeypatch.setattr(counts, "CHUNK", size)
        assert counts.parse(data) == some
        assert merged(tmp_path, some, some) == added(some, some)


def test_more_than_a_count_holds_stays_the_most(tmp_path: Path) -> None:
    some = {b"ab\tx": {b"f\t1\tmain\t\t": counts.MOST}}
    assert counts.parse(counts.write(merged(tmp_path, some, some, some))) == some


def test_the_different_lines_of_a_merge_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A host with a million names is left out, and those behind it are not."""
    monkeypatch.setattr(counts, "ROOM", 53 * 220)
    names = {b"ab\tx": {counts.function(n, f"name{n}", ""): n for n in range(50)}}
    more = {b"ab\tx": {counts.function(n, f"more{n}", ""): n for n in range(50)}}
    options = MergeOptions(keep_going=True)
    assert merged(tmp_path, names, more, _SMALL, options=options) == added(names, _SMALL)


def test_builds_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A section of six bytes would take half a KiB of memory."""
    monkeypatch.setattr(counts, "MOST_BUILDS", 3)
    some: list[Counts] = [{b"%x%x\tx" % (n, m): {} for m in range(k)} for n, k in ((10, 3), (11, 2), (12, 1))]
    three, two, other = some
    assert counts.parse(counts.write(three)) == three
    with pytest.raises(ProfileError, match="has more than 3 builds"):
        counts.parse(counts.write(three | other))
    options = MergeOptions(keep_going=True)
    assert merged(tmp_path, two, three, other, two, options=options) == two | other


def test_a_file_that_is_left_out_takes_no_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its first section is good, and its second is not."""
    monkeypatch.setattr(counts, "ROOM", 53 * 220)
    names = {b"ab\tx": {counts.function(n, f"name{n}", ""): n for n in range(50)}}
    bad = {b"ab\tx": {counts.function(n, f"more{n}", ""): n for n in range(40)}, b"ab\ty": {b"nonsense": 1}}
    assert merged(tmp_path, bad, names, options=MergeOptions(keep_going=True)) == names


def test_weights(tmp_path: Path) -> None:
    """The first pattern that fits a path or a name counts; hosts stay hosts."""
    options = MergeOptions([("0.*", 0), ("1.counts", 3), ("*/2.*", 5)])
    item = {b"ab\tx": {b"f\t1\tmain\t\t": 1, b"hosts": 1}}
    assert merged(tmp_path, item, item, item, item, options=options) == {b"ab\tx": {b"f\t1\tmain\t\t": 9, b"hosts": 3}}
    with pytest.raises(UsageError):
        merged(tmp_path, item, options=MergeOptions([("*", -1)]))


def test_a_cap_scales_down(tmp_path: Path) -> None:
    loud = {b"ab\tx": {b"f\t1\ta\t\t": 900, b"f\t2\tb\t\t": 100, b"c\t@1\t\t\t@2\t": 50, b"hosts": 1}}
    assert merged(tmp_path, loud, options=MergeOptions(cap=10)) == {
        b"ab\tx": {b"f\t1\ta\t\t": 9, b"f\t2\tb\t\t": 1, b"c\t@1\t\t\t@2\t": 0, b"hosts": 1}
    }
    assert merged(tmp_path, loud, options=MergeOptions(cap=1000)) == loud


_FUNCTION, _CALL = b"f\t1\ta\t\t", b"c\t@1\t\t\t@2\t"
_HONEST: Counts = {b"ab\tx": {_FUNCTION: 100, _CALL: 10, b"r\t1\t2": 100, b"hosts": 1}}


@pytest.mark.parametrize(
    "lies",
    [
        {b"ab\tx": {_FUNCTION: 1, _CALL: 10**17}},
        {b"ab\tx": {_FUNCTION: 100, _CALL: 10**17}},
        *({b"ab\tx": {_FUNCTION: 1, key: 10**17}} for key in (b"outside", b"r\t1\t2", b"j\t1\t2", b"b\t1")),
        *({b"ab\tx": {_FUNCTION: 1, key: 10**17}} for key in (b"foreign", b"bad", b"hosts")),
        {b"%02x\tx" % build: {_FUNCTION: 100, _CALL: 100} for build in range(200)},
        {b"ab\tx%d" % module: {_FUNCTION: 100} for module in range(200)},
        {b"ab\tx%d" % module: {b"foreign": 100, b"bad": 100, b"hosts": 100} for module in range(200)},
        {b"ab\tx": {b"f\t%x\t\t\t" % at: 100 for at in range(1, 300)}, b"ac\tx": {_CALL: 100}},
    ],
)
def test_a_cap_bounds_a_host_in_every_kind_of_line(tmp_path: Path, lies: Counts) -> None:
    """Over all builds and programs of its file, and a file without too much is not touched."""
    options = MergeOptions(cap=100)
    assert merged(tmp_path, _HONEST, options=options) == _HONEST
    sums = Counter[bytes]()
    for mine in merged(tmp_path, lies, options=options).values():
        for key, count in mine.items():
            sums[key.split(b"\t")[0]] += count
    assert sums[b"f"] + sums[b"outside"] <= 100
    assert sums[b"c"] <= sum(
        count for mine in lies.values() for key, count in mine.items() if key[:2] in (b"f\t", b"ou")
    )
    assert max(sums.values()) <= 100


def test_one_host_in_a_hundred_lies(tmp_path: Path) -> None:
    """It moves the sum wherever it likes, a capped sum by as much as its samples."""
    chance = random.Random(27)
    weights = [1 / (n + 1) for n in range(300)]
    hosts = []
    for _ in range(99):
        ran = chance.choices(range(300), weights, k=2000)
        hosts.append({b"ab\tx": {counts.function(n, "", ""): ran.count(n) for n in set(ran)}})
    lies = {counts.function(n, "", ""): 10**15 for n in range(200, 50_000)}
    honest = added(*hosts)[b"ab\tx"]
    everybody = [*hosts, {b"ab\tx": lies}]

    def share_of_lies(some: Counts) -> float:
        mine = some[b"ab\tx"]
        return sum(mine.get(key, 0) for key in lies) / sum(mine.values())

    true = sum(honest.get(key, 0) for key in lies) / sum(honest.values())
    assert true < 0.08
    assert share_of_lies(merged(tmp_path, *everybody)) > 0.99
    assert share_of_lies(merged(tmp_path, *everybody, options=MergeOptions(cap=2000))) < true + 0.0101


def test_packed_and_not_are_the_same(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a", tmp_path / "b"
    plain.write_bytes(counts.write(_SMALL))
    packed.write_bytes(counts.packed(plain.read_bytes()))
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert merge_counts([str(packed), str(plain)]).counts == added(_SMALL, _SMALL)
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(HugealignError, match="truncated"):
        merge_counts([str(packed)])


def test_the_file_that_the_document_shows() -> None:
    text = (ROOT / "docs" / "reference" / "counts.md").read_text()
    shown = text[text.index("# hugealign.counts/1\n") :].partition("```")[0].encode()
    result = counts.parse(shown)
    assert counts.write(result) == shown
    assert [counts.samples(lines) for _, lines in counts.sections(shown)] == [102]
