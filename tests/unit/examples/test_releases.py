"""The two releases of examples/fleet: which builds are made, and counts without what tells functions apart."""

from examples.fleet import releases
from hugealign.profile import counts


def test_two_builds_and_one_link() -> None:
    server = releases.server()
    assert [list(build["variants"]) for build in server.builds] == [[releases.NEW], [releases.OLD]]
    assert all(list(link["variants"]) == [releases.LINKED] for link in server.links)
    assert [source["name"] for source in server.sources] == ["current", releases.OLD]


def test_by_name_and_by_address() -> None:
    section = {
        counts.function(0x1000, "f", "a.c", b"0" * 16): 3,
        counts.function(0x2000, "", "", b"1" * 16): 4,
        counts.call(counts.end(0x1000, "f", ""), 5, counts.end(0x2000, "", "")): 2,
        counts.HOSTS: 1,
    }
    named, placed = releases._by_name(section), releases._by_address(section)
    assert named == {b"f\t\tf\ta.c\t": 3, b"outside": 4, b"hosts": 1}
    assert placed == {b"f\t1000\t\t\t": 3, b"f\t2000\t\t\t": 4, b"c\t@1000\t\t5\t@2000\t": 2, b"hosts": 1}
    for some in (named, placed):
        counts.parse(counts.write({counts.head("ab" * 20, "p"): some}))  # still counts
