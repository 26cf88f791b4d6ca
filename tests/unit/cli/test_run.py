"""`hugealign run` starts with few modules."""

import subprocess
import sys

from tests.support import ROOT


def test_a_start_loads_nothing_slow() -> None:
    """Each of them takes longer than what `run` does with a small program."""
    code = "import sys; from hugealign.run import launch; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-ISc", f"import sys; sys.path.append({str(ROOT)!r}); {code}"], check=True,
                          capture_output=True, text=True)  # fmt: skip
    slow = {"argparse", "dataclasses", "inspect", "json", "re", "shutil", "subprocess", "typing"}
    assert not slow & set(done.stdout.split())
