"""PostgreSQL, linked by `hugealign`, rewritten by BOLT, made whole by `fix`: for ``python -m lab.bench.bolted``.

It uses Debian's source, ``./configure CC="hugealign gcc"`` and the two flags that BOLT's README requests: relocations,
and no functions split by GCC.  The profile is perf samples without branches, which any machine gives, taken while the
regression suite runs, for ``perf2bolt -nl``.  Each of the three servers is warmed, passes the whole suite, and is
inspected while it runs.  For root, which PostgreSQL refuses, all of that runs as `nobody`.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from lab.bench.peers import builds
from lab.bench.peers.program import WORK
from lab.bench.sources import sources
from tests.support import HUGEALIGN, environment, run

_NOBODY = 65534
_AS_NOBODY = ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups")
_CFLAGS = "CFLAGS=-O2 -fno-reorder-blocks-and-partition"
#: BOLT cannot handle the interpreter's computed gotos in this function: it says so and stops.
_SKIPPED = "-skip-funcs=ExecInterpExpr.*"

_DIRECTORY = WORK / "postgres"
_BUILD = _DIRECTORY / "build"
_BIN = _BUILD / "tmp_install" / "usr" / "local" / "pgsql" / "bin"


def _as_user(*words: object, front: tuple[str, ...] = ()) -> str:
    """Run a command in the build directory, as a user that PostgreSQL accepts, and return its output."""
    user = _AS_NOBODY if os.geteuid() == 0 else ()
    argv = [*front, *user, *map(str, words)]
    env = environment(HOME=str(_BUILD))
    done = subprocess.run(
        argv, cwd=_BUILD, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def _built() -> None:
    """Build PostgreSQL, unless it is."""
    _BUILD.mkdir(parents=True, exist_ok=True)
    sources(_DIRECTORY, ["postgresql-15"])
    if os.geteuid() == 0:
        shutil.chown(_BUILD, _NOBODY)
    tree = _DIRECTORY / "postgresql-15" / "tree"
    if not (_BUILD / "config.status").exists():
        words = ("--without-readline", "--without-zlib", _CFLAGS, "LDFLAGS=-Wl,--emit-relocs", f"CC={HUGEALIGN} gcc")
        _as_user(tree / "configure", *words)
    _as_user("make", "-s", f"-j{os.cpu_count()}")


def three() -> dict[str, Path]:
    """Make and return the linked server, BOLT's output for it, and that output fixed."""
    _built()
    linked, bolted, fixed = (_DIRECTORY / name for name in ("linked", "bolted", "fixed"))
    data, samples = _DIRECTORY / "samples.fdata", _DIRECTORY / "samples.perf"
    shutil.copyfile(_BUILD / "src" / "backend" / "postgres", linked)
    front = ("perf", "record", "-q", "-e", "cpu-clock", "-o", str(samples), "--")
    _passed(_as_user("make", "-s", "check", front=front))  # perf2bolt knows the copy that runs by its build ID
    run(builds.BOLT.with_name("perf2bolt"), linked, "-nl", "-p", samples, "-o", data, check=True)
    words = [*builds.BOLT_BLOCKS, _SKIPPED, f"-data={data}", "-o", bolted]
    run(builds.BOLT, linked, *words, check=True)
    run(HUGEALIGN, "fix", "-o", fixed, bolted, check=True)
    return {"linked by hugealign": linked, "by BOLT": bolted, "by fix": fixed}


def _passed(said: str) -> str:
    """Return how many tests passed according to the suite's output *said*; exit unless all did."""
    match = re.search(r"All (\d+) tests passed", said)
    if match is None:
        raise SystemExit(f"the regression suite says nothing of tests that passed:\n{said[-2000:]}")
    return f"{match[1]} of {match[1]} tests"


def tested(server: Path) -> str:
    """Return how many tests of the regression suite the warmed *server* passes; exit unless it passes all."""
    installed = _BIN / "postgres"
    beside = installed.with_name("postgres.new")
    shutil.copyfile(server, beside)
    beside.chmod(0o755)
    beside.replace(installed)
    run(HUGEALIGN, "warm", installed, check=True)
    return _passed(_as_user("make", "-s", "check", "NO_TEMP_INSTALL=yes"))


def alive() -> int:
    """Return the number of huge windows in the installed server, after a query."""
    data = _BUILD / "data"
    shutil.rmtree(data, ignore_errors=True)
    _as_user(_BIN / "initdb", "-D", data, "--no-sync")
    run(HUGEALIGN, "warm", _BIN / "postgres", check=True)
    options = f"-c listen_addresses='' -k {_BUILD}"
    _as_user(_BIN / "pg_ctl", "-D", data, "-o", options, "-l", _BUILD / "server.log", "-w", "start")
    try:
        _as_user(_BIN / "psql", "-h", _BUILD, "-c", "select count(*) from pg_class a, pg_class b", "postgres")
        process = (data / "postmaster.pid").read_text(encoding="ascii").split()[0]
        (seen,) = json.loads(run(HUGEALIGN, "ps", "--json", process).stdout)["processes"]
        return int(seen["windows_huge"])
    finally:
        _as_user(_BIN / "pg_ctl", "-D", data, "-m", "immediate", "stop")
