"""What holds for the unit tests: none starts a compiler or a linker, neither itself nor through what it tests.

So what our C sorts, tests/oracles sorts here.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.oracles import chains, exttsp

_TOOLS = re.compile(r"(.*-)?(cc|c\+\+|gcc|g\+\+|cpp|clang|clang\+\+|as|ld|ld\.\w+|lld|mold|gold|hugealign)(-[\d.]+)?")


@pytest.fixture(scope="package", autouse=True)
def no_toolchain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail a test or a fixture that starts one; asking one for its version is no more than reading a file."""
    start = subprocess.Popen.__init__

    def guarded(self: "subprocess.Popen[Any]", args: Any, *more: Any, **named: Any) -> None:
        words = [args] if isinstance(args, (str, bytes, os.PathLike)) else list(args)
        name = Path(os.fsdecode(words[0])).name
        if _TOOLS.fullmatch(name) and words[1:] != ["--version"]:
            pytest.fail(f"a unit test starts {name}: it belongs in tests/commands, tests/link or tests/build")
        start(self, args, *more, **named)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(subprocess.Popen, "__init__", guarded)
        patched.setattr("hugealign.ordering.cdsort.merged", chains.merged)
        patched.setattr("hugealign.ordering.blocks.orders", exttsp.orders)
        # What earlier runs compiled must not hide that this one would.
        patched.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "no-cache"))
        yield
