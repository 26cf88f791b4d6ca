"""Links whose parent has closed stdin, stdout or stderr: the same status, the same words, the same protections."""

import itertools
import shutil
from pathlib import Path

import pytest

from tests.link.bulk import MAIN_OF_ANY, bulk_object
from tests.support import HUGEALIGN, Elf, Toolchain, run

CLOSED = [c for count in range(4) for c in itertools.combinations(("0<&-", "1>&-", "2>&-"), count)]
WARNING = 'static const char loud[] __attribute__((section(".gnu.warning.big_sum"), used)) = "big_sum is loud";\n'
SIZES = {"python": 300, "started": 4500}  # KiB: Python starts the linker, or sh starts it before Python


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bulks of text that take different ways, and mains that link silently, loudly and not at all."""
    place = tmp_path_factory.mktemp("closed")
    for name, size in SIZES.items():
        shutil.copy(bulk_object(tmp_path_factory.mktemp(name), size), place / f"{name}.o")
    for name, source in (
        ("silent", MAIN_OF_ANY),
        ("warning", WARNING + MAIN_OF_ANY),
        ("failing", "int nowhere(void);\n" + MAIN_OF_ANY.replace("return", "return nowhere() +")),
    ):
        (place / f"{name}.c").write_text(source)
        run("gcc", "-c", f"{name}.c", cwd=place, check=True)
    return place


@pytest.mark.parametrize(
    ("size", "kind"),
    [
        *(("python", kind) for kind in ("silent", "warning", "failing")),
        ("started", "silent"),
        *(pytest.param("started", kind, marks=pytest.mark.matrix) for kind in ("warning", "failing")),
    ],
)
def test_closed_descriptors(size: str, kind: str, toolchain: Toolchain, objects: Path, tmp_path: Path) -> None:
    for closed in CLOSED:
        outcomes = []
        for name, before in (("plain", ()), ("wrapped", (HUGEALIGN,))):
            output = tmp_path / "out"
            words = (*before, toolchain.cc, *toolchain.flags, f"{kind}.o", f"{size}.o", "-o", output)
            done = run("sh", "-c", f'exec "$@" {" ".join(closed)}', "sh", *words, cwd=objects)
            guards = Elf(output).guards() if output.exists() else None
            if guards and name == "wrapped":
                assert Elf(output).faults(exact=toolchain.linker != "gold") == [], closed
                assert run(output).returncode == 0, closed
            outcomes.append(
                (done.returncode, sorted(done.stdout.splitlines()), sorted(done.stderr.splitlines()), guards)
            )
            output.unlink(missing_ok=True)
        plain, wrapped = outcomes
        assert wrapped == plain, closed
