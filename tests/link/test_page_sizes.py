"""Other sizes of huge page: contiguous PTEs of 64 KiB, 32 MiB and 512 MiB of other kernels' configurations."""

from pathlib import Path

import pytest

from tests.support import HUGEALIGN, Elf, Toolchain, run

SIZES = {"64K": 64 << 10, "2M": 2 << 20, "32M": 32 << 20, "512M": 512 << 20}
LINKERS = ("gcc-bfd", "gcc-lld14", "gcc-lld19", "gcc-mold", "gcc-gold")


def cannot(linker: str, size: str, mode: str) -> str | None:
    """Why a combination cannot be, or None."""
    if size == "512M" and mode in ("-no-pie", "-static") and linker not in {"lld14", "lld19"}:
        return "three windows of 512 MiB pass the 2 GiB that the small code model reaches from address 0"
    if size == "512M" and linker == "gold":
        return "gold writes the gigabyte out, twice: half a minute"
    return None


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["-pie", "-no-pie", "-static", "-shared"])
@pytest.mark.parametrize("name", LINKERS)
def test_layout(
    name: str, mode: str, size: str, toolchains: dict[str, Toolchain], features: Path, bulk: Path, tmp_path: Path
) -> None:
    toolchain = toolchains[name]
    if reason := toolchain.missing() or cannot(toolchain.linker, size, mode):
        pytest.skip(reason)
    if size == "512M" and mode != "-pie":
        pytest.skip("one kind of output at 512M is enough: each takes seconds and half a gigabyte of disk")
    output = tmp_path / "out"
    objects = [bulk] if mode == "-shared" else [features, bulk]
    done = run(HUGEALIGN, f"--page-size={size}", toolchain.cxx, *toolchain.flags, mode, *objects, "-o", output)
    assert (done.returncode, done.stderr) == (0, "")
    assert Elf(output).faults(SIZES[size], exact=toolchain.linker != "gold") == []
    assert run(HUGEALIGN, "verify", "--page-size", size, output).returncode == 0
    if mode != "-shared":
        assert run(output).returncode == 0
    output.unlink()


def test_shortfall_is_said_where_it_cannot_be(features: Path, bulk: Path, tmp_path: Path) -> None:
    done = run(HUGEALIGN, "--page-size=512M", "g++", "-static", features, bulk, "-o", tmp_path / "out")
    assert done.returncode == 0
    assert done.stderr.startswith("hugealign: warning: ")
    assert done.stderr.count("\n") == 1
    assert run(tmp_path / "out").returncode == 0


def test_larger_page_of_the_users_own_is_kept(features: Path, bulk: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    run(HUGEALIGN, "g++", "-Wl,-z,max-page-size=0x400000", features, bulk, "-o", output, check=True)
    assert Elf(output).faults(4 << 20) == []


@pytest.mark.parametrize("value", ["nonsense", "3M", "4096", "-2M", ""])
def test_nonsense(value: str, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    done = run(
        HUGEALIGN, f"--page-size={value}", "gcc", tmp_path / "main.c", "-o", tmp_path / "out", HUGEALIGN_MIN_TEXT="0"
    )
    if not value:  # an empty variable counts as unset
        assert done.returncode == 0
        return
    assert done.returncode in (125, 1)
    assert "hugealign: error: HUGEALIGN_PAGE_SIZE" in done.stderr
    assert not (tmp_path / "out").exists()
