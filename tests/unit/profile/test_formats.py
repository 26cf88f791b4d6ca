"""What a file is taken for by its beginning, and what is said of one that is nothing known."""

import io
from pathlib import Path

import pytest

from hugealign.elf.symbols import Functions
from hugealign.profile import perf_text, read
from hugealign.profile.formats import FORMATS, detect
from hugealign.profile.model import Profile, ProfileError
from hugealign.profile.source import ProfileSource

FUNCTIONS = Functions([0x1000], [16], ["hot"], [""], {"hot": [0]})
UNKNOWN = {
    "perf script -F ip,sym,dso": b"     5590ad4a2134 hot (/tmp/p)\n     5590ad4a2134 hot (/tmp/p)\n",
    "with periods": b"p 4450 2004008 5590ad4a2134 hot (/tmp/p)\n" * 3,
    "speedscope": b'{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":[]}}\n',
    "JSON": b'{"resourceProfiles":[{"scopeProfiles":[]}]}\n',
    "indented JSON": b'[\n  {\n    "name": "hot"\n  }\n]\n',
    "bpftrace": b"@[\n    hot+10\n    main+20\n]: 120\n",
    "fractions": b"main;hot 12.5\nmain;work 3.5\n",
    "prose": b"This is no profile.\nIt has been written by a person.\n",
    "numbers": b"12\n13\n",
    "nm": b"0000000000001139 T hot\n0000000000001140 T main\n",
    "comments": b"# nothing\n",
}


@pytest.mark.parametrize("data", UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_text_is_no_list_of_symbols(data: bytes, tmp_path: Path) -> None:
    """The message has the formats that are known, and does not blame the program."""
    (tmp_path / "p").write_bytes(data)
    with pytest.raises(ProfileError) as error:
        read.add(str(tmp_path / "p"), Profile(), FUNCTIONS, "/bin/p")
    assert "unknown format" in str(error.value)
    assert all(name in str(error.value) for name in FORMATS)


@pytest.mark.parametrize(
    "data", [b"main\n_ZN3foo3barEv\n", b"# all\n\nmain\n$x\n.L1\n?f@@YAHXZ\nh\xc3\xb6t\n", b"a\nb\nodd name\nc\n", b"f"]
)
def test_lists_of_symbols(data: bytes) -> None:
    assert detect(data) == "symbols"


def test_a_directory_that_perf_did_not_write(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="is a directory without perf"):
        read.add(str(tmp_path), Profile(), FUNCTIONS, "/bin/p")


@pytest.mark.parametrize("directory", ["/srv", "/srv/Files (x86)", "/srv/a (b) (c)", "/srv/+0x1 (d)"])
@pytest.mark.parametrize("name", ["hot", "operator() (int)"])
def test_a_path_with_parentheses(directory: str, name: str) -> None:
    profile = Profile()
    text = f"p 7 1.0: 1 c:u: 401136 {name}+0x1 ({directory}/p)\np 7 1.0: 1 c:u: 401136 work+0x1 ({directory}/q)\n"
    source = ProfileSource(io.BytesIO(text.encode()), "x", FUNCTIONS, f"{directory}/p")
    perf_text.read(source, profile)
    assert (profile.samples, profile.foreign, profile.others) == ({(name, ""): 1}, 1, [f"{directory}/q"])
