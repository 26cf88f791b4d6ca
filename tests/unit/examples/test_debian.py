"""Debian's sources, by the machine's own entries for apt."""

from examples.servers.debian import Source, stanzas, versions

MAIN = {"bookworm": ("bookworm",)}
DEB822 = """\
# a comment
Types: deb
URIs: http://archive.example/debian http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQ

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: http://vendor.example/apt
Suites: nodistro
Components: main
"""
ONE_LINE = """\
deb [arch=amd64 signed-by=/k.gpg] http://one.example/debian bookworm main non-free
# deb http://commented.example/debian bookworm main
deb-src http://two.example/debian bookworm main
deb http://three.example/debian bookworm contrib
deb cdrom:[Debian]/ bookworm main
"""


def test_entries_become_source_entries() -> None:
    found = list(stanzas("debian.sources", DEB822, MAIN))
    assert [(uri, suite) for uri, suite, _ in found] == [
        ("http://archive.example/debian", "bookworm"),
        ("http://mirror.example/debian", "bookworm"),
    ]
    assert all(text.startswith("Types: deb-src\n") and "\nSuites: bookworm\n" in text for _, _, text in found)
    assert "\n .\n mQ\n" in found[0][2]
    assert f"\nURIs: {found[1][0]}\n" in found[1][2]
    found = list(stanzas("sources.list", ONE_LINE, MAIN))
    assert [uri for uri, _, _ in found] == ["http://one.example/debian", "http://two.example/debian"]
    assert "Signed-By: /k.gpg" in found[0][2]
    assert "Signed-By" not in found[1][2]


def test_an_entry_stands_for_the_suites_that_belong_to_it() -> None:
    """The release before is in the same archive, its security updates are not asked for."""
    suites = {"bookworm": ("bookworm", "bullseye"), "bookworm-security": ("bookworm-security",)}
    text = "deb http://a.example/debian bookworm main\ndeb http://s.example/security bookworm-security main\n"
    text += "deb http://a.example/debian trixie main\n"
    assert [(uri, suite) for uri, suite, _ in stanzas("sources.list", text, suites)] == [
        ("http://a.example/debian", "bookworm"),
        ("http://a.example/debian", "bullseye"),
        ("http://s.example/security", "bookworm-security"),
    ]


def test_versions() -> None:
    """A package that is not there has none, which is no error."""
    found = versions(["dpkg", "no-such-package-here"])
    assert list(found) == ["dpkg"]
    assert found["dpkg"][0].isdigit()


def test_a_source_is_the_newest_and_needed_unless_it_says_otherwise() -> None:
    assert (Source("mariadb").newest, Source("mariadb").needed) == (True, True)
