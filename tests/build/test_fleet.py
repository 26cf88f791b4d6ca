"""The example on Apache Spark: a real local cluster makes the very bytes that one machine makes."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hugealign.profile import counts
from lab.bench.fleet import hosts
from tests.commands.profiles import SAMPLES, build
from tests.support import HUGEALIGN, ROOT, run

PYTHON = ROOT / "build" / "fleet" / "venv" / "bin" / "python"


def _needs() -> str:
    """What is not here that the example needs."""
    if not shutil.which("java"):
        return "no Java 17"
    return "" if PYTHON.exists() else "no PySpark in build/fleet: examples/fleet/run.sh installs it"


pytestmark = [pytest.mark.matrix, pytest.mark.timeout(900), pytest.mark.skipif(bool(_needs()), reason=_needs())]


def _submit(source: Path, target: Path, *binaries: Path) -> str:
    """Merge by two workers that are processes of their own."""
    target.mkdir()
    home = subprocess.run(
        [PYTHON, "-c", "import pyspark, os; print(os.path.dirname(pyspark.__file__))"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    words = [f"{home}/bin/spark-submit", "--master=local-cluster[2,1,1024]", "--conf=spark.executor.memory=1024m"]
    done = subprocess.run(
        [*words, "--conf=spark.ui.enabled=false", ROOT / "examples/fleet/fleet.py", source.as_uri(), target, *binaries],
        env=os.environ | {"SPARK_HOME": home, "PYSPARK_PYTHON": str(PYTHON), "FLEET_PARTITIONS": "8"},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def test_the_same_bytes(tmp_path: Path) -> None:
    """Of counts and of a profile; what is damaged is named, and nothing of it counts."""
    files = tmp_path / "files"
    files.mkdir()
    hosts(files, 12)
    program = build(tmp_path)
    good = sorted(files.iterdir())
    reduced = tmp_path / "reduced.counts"
    run(HUGEALIGN, "profile", "reduce", SAMPLES / "prog.fdata", "-b", program, "-o", reduced, check=True)
    run(HUGEALIGN, "profile", "merge", *good, reduced, "-o", tmp_path / "one", check=True)
    shutil.copy(SAMPLES / "prog.fdata", files / "prog.fdata")
    (files / "packed.counts.gz").write_bytes(counts.packed(counts.write({})))
    (files / "cut.counts").write_bytes(good[0].read_bytes()[:-9])
    log = _submit(files, tmp_path / "out", program)
    assert log.count("Launching executor") >= 2 or log.count("Executor added") >= 2, log[-3000:]
    assert (tmp_path / "out" / "all.counts").read_bytes() == (tmp_path / "one").read_bytes()
    assert (tmp_path / "out" / "skipped.txt").read_text().endswith("/cut.counts\n")
    assert list((tmp_path / "out" / "counts.parquet").glob("*.parquet"))


def test_a_worker_is_killed(tmp_path: Path) -> None:
    """As run.sh does it: the sum is that of one machine."""
    script = (
        "import sys; from pathlib import Path; from examples.fleet.measure import measured; "
        "from lab.bench.fleet import made_up; print(measured(Path(sys.argv[1]), 20, made_up()))"
    )
    words = [str(PYTHON), "-c", script, str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=800, check=False)
    assert "killed=True, same=True" in done.stdout, done.stdout + done.stderr
