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


@pytest.fixture(params=[f"gcc-{linker}-{suite}" for suite in newer.SUITES for linker in ("bfd", "lld", "mold")])
def toolchain(request: pytest.FixtureRequest) -> tuple[str, tuple[str, ...]]:
    _, linker, suite = request.param.split("-")
    if reason := newer.unavailable(suite):
        pytest.skip(reason)
    use = () if linker == "mold" else (f"-fuse-ld={linker}",)
    return linker, (test_aarch64.GCC, *use, f"-B{newer.TARGET / suite / f'aarch64-{linker}'}")
