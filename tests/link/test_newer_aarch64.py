"""aarch64 with newer linkers than this system has; newer.py fetches them."""

import inspect

import pytest

from tests.link import newer, test_aarch64

pytestmark = [pytest.mark.matrix, test_aarch64.pytestmark]

# Every test of that module that takes a toolchain is a test here too, with the fixture `toolchain` below.
for name, function in vars(test_aarch64).items():
    if name.startswith("test_") and "toolchain" in inspect.signature(function).parameters:
        globals()[name] = function
bulk = test_aarch64.bulk
features = test_aarch64.features


NEWER = [f"gcc-{linker}-{suite}" for suite in newer.SUITES for linker in ("bfd", "lld", "mold")]


@pytest.fixture(params=[*NEWER, f"gcc-wild-{newer.CARGO}"])
def toolchain(request: pytest.FixtureRequest) -> tuple[str, tuple[str, ...]]:
    _, linker, suite = request.param.split("-")
    if reason := newer.unavailable(suite):
        pytest.skip(reason)
    # gcc 12 for another target takes these two only by the name of ld; wild is one program for all processors.
    use = () if linker in ("mold", "wild") else (f"-fuse-ld={linker}",)
    place = "bin" if linker == "wild" else f"aarch64-{linker}"
    return linker, (test_aarch64.GCC, *use, f"-B{newer.TARGET / suite / place}")
