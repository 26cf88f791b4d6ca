"""The two releases of examples/fleet: which builds are made, and counts without what tells functions apart."""

from examples.fleet import releases
from hugealign.profile import counts


def test_two_builds_and_one_link() -> None:
    server = releases.server()
    assert [list(build["variants"]) for build in server.builds] == [[releases.NEW], [releases.OLD]]
    assert all(list(link["variants"]) == [releases.LINKED] for link in server.links)
    assert [source["name"] for source in server.sources] == ["current", releases.OLD]


def test_without_code_and_names() -> None:
    section = {
        counts.function(0x1000, "f", "a.c", b"0" * 16): 3,
        counts.function(0x2000, "g", "", b"1" * 16): 4,
        counts.call(counts.end(0x1000, "f", ""), 5, counts.end(0x2000, "g", "")): 2,
        counts.HOSTS: 1,
    }
    bare = releases._without(section, code=True, names=True)
    assert bare == {b"f\t1000\t\t\t": 3, b"f\t2000\t\t\t": 4, b"c\t@1000\t\t5\t@2000\t": 2, b"hosts": 1}
    assert releases._without(section, code=True)[b"f\t1000\tf\ta.c\t"] == 3
    assert releases._without(section) == section
    counts.parse(counts.write({counts.head("ab" * 20, "p"): bare}))  # still counts
