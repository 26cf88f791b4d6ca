"""Names of compilation units, out of what compilers write, and out of damaged files."""

import random
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from hugealign.code import compileunits
from hugealign.code.compileunits import read_units
from hugealign.errors import HugealignError
from tests.support import need

SOURCE = "static int same(int x) { return x * 3; }\nint NAME(int x) { return same(x); }\n"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("units")
    for path in ("one/a.c", "two/a.c", "two/b.c"):
        (directory / path).parent.mkdir(exist_ok=True)
        (directory / path).write_text(SOURCE.replace("NAME", path.replace("/", "_").removesuffix(".c")))
    names = ("one_a", "two_a", "two_b")
    main = "".join(f"int {name}(int);\n" for name in names)
    main += f"int main(int n, char **v) {{ return {' + '.join(f'{name}(n)' for name in names)} == 9 ? 0 : v != 0; }}\n"
    (directory / "main.c").write_text(main)
    return directory


def built(directory: Path, *flags: str, compiler: str = "gcc") -> Path:
    need(compiler)
    words = (compiler, *flags, "main.c", "one/a.c", "two/a.c", "two/b.c", "-o", "program")
    subprocess.run(words, cwd=directory, check=True)
    return directory / "program"


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize(
    "flags", [("-g",), ("-g1", "-gdwarf-4"), ("-g", "-gdwarf-5"), ("-g", "-gz"), ("-g1", "-ffunction-sections")]
)
def test_files_of_one_name(compiler: str, flags: tuple[str, ...], sources: Path) -> None:
    """a.c is in two directories, and cannot be the one that is meant."""
    result = read_units(built(sources, *flags, compiler=compiler))
    assert {name: result[name] for name in ("main.c", "b.c")} == {"main.c": "main.c", "b.c": "two/b.c"}
    assert "a.c" not in result


def test_without_debug_information(sources: Path) -> None:
    program = built(sources)
    subprocess.run(["strip", "-g", program], check=True)
    assert read_units(program) == {}


def test_bounds(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = built(sources, "-g")
    for name in ("_MOST", "_MOST_UNITS"):
        with monkeypatch.context() as patch:
            patch.setattr(compileunits, name, 1)
            with pytest.raises(HugealignError, match=r"more than 1 [a-z ]+, which are not"):
                read_units(program)


def test_damaged(sources: Path) -> None:
    """An answer or a clear error, whatever stands there."""
    data = built(sources, "-g").read_bytes()
    where = data.find(b"two/b.c")
    assert where > 0
    damaged, failed = sources / "damaged", 0
    draw = random.Random(5)
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(draw.choice((1, 4, 64))):
            at = draw.randrange(64) if draw.random() < 0.2 else draw.randrange(len(data) // 2, len(data))
            changed[at] = draw.randrange(256)
        damaged.write_bytes(changed[: draw.choice((len(data), draw.randrange(len(data))))])
        with suppress(HugealignError):
            assert isinstance(read_units(damaged), dict)
            continue
        failed += 1
    assert failed > 30


def test_no_library(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_name: str) -> None:
        raise ImportError

    monkeypatch.setattr("importlib.import_module", absent)
    with pytest.raises(HugealignError, match=rf"\({re.escape(sys.executable)} -m pip install pyelftools"):
        read_units(built(sources, "-g"))
    monkeypatch.undo()
    with pytest.raises(HugealignError, match="No such file"):
        read_units(sources / "nothing")
