"""PostgreSQL's server alone: its sources and flags, its data, and two jobs for its single-user mode."""

# ruff: noqa: S608 - no value in these statements comes from anywhere else

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from lab.bench.sources import sources
from lab.bench.times import makefiles
from lab.bench.times.builds import Run

_PACKAGE = "postgresql-15"
_WITHOUT = ("--without-readline", "--without-icu", "--without-zlib", "--disable-thread-safety")
_FILL = (
    "create table account (id int primary key, branch int, balance int, filler char(84))",
    "create table branch (id int primary key, name text, tags jsonb)",
    "insert into account select n, n % 40, n * 7919 % 5000, '' from generate_series(1, 20000) n",
    "insert into branch select n, 'branch ' || md5(n::text), jsonb_build_object('n', n) from generate_series(0, 39) n",
    "analyze",
)


def units(directory: Path) -> tuple[list[Path], tuple[str, ...], tuple[str, ...]]:
    """Return the sources of the server, fetched and built once, and the flags and libraries that they need.

    Each source is a file that includes one of PostgreSQL's, since some of these have the same name.
    """
    sources(directory, [_PACKAGE])
    tree = directory / _PACKAGE / "tree"
    makefiles.build(directory, tree, (f"--prefix={directory}/installed", *_WITHOUT), ("all", "install"))
    found = makefiles.linked(directory, "postgres")
    beside = directory / "units"
    beside.mkdir(exist_ok=True)
    files = []
    for source in found.sources:
        files.append(beside / str(source.relative_to(tree / "src")).replace("/", "-"))
        files[-1].write_text(f'#include "{source}"\n')
    flags = [word for word in found.words[0] if word.startswith(("-D", "-f"))]
    libraries = [word for word in found.link if word.startswith("-l") or word.endswith(".a")]
    return files, (*flags, f"-I{tree}/src/include"), ("-Wl,--export-dynamic", *libraries)


def _train(times: int) -> Iterator[str]:
    for n in range(times):
        key = n * 7919 % 20000 + 1
        yield f"select balance from account where id = {key}"
        yield f"select b.name, a.balance from account a join branch b on b.id = a.branch where a.id = {key}"
        if n % 20 == 0:
            yield (
                "select branch, count(*), sum(balance), min(id) from account "
                f"where id between {key} and {key + 2000} group by branch order by 3 desc"
            )


def _test(times: int) -> Iterator[str]:
    for n in range(times):
        low = n * 104729 % 15000
        yield (
            "select id, sum(balance) over (partition by branch order by id rows 3 preceding) from account "
            f"where id between {low} and {low + 60}"
        )
        yield f"select upper(name), length(regexp_replace(name, '[0-9]+', '-', 'g')) from branch where id < {n % 20}"
        yield f"select id, tags->>'n', tags @> '{{\"n\": {n % 40}}}' from branch where tags ? 'n'"
        yield f"with recursive r(n) as (select 1 union all select n + 1 from r where n < {n + 40}) select sum(n) from r"
        yield f"select array_agg(id order by balance desc) from account where branch = {n % 40} and id < {low + 500}"


def runs(directory: Path) -> tuple[Run, Run, Run]:
    """Return the run to learn from, the one that judges, and a short one, on filled data; the server is not root's."""
    user = pwd.getpwnam("nobody")
    front: tuple[str, ...] = ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    binaries, data = directory / "installed" / "bin", directory / "data"
    (directory / "timed").mkdir(exist_ok=True)
    for path in (directory, directory / "timed"):
        path.chmod(0o777)  # what an instrumented server writes at its end
    jobs = {"train": _train(10_000), "test": _test(250), "once": _test(10)}
    if os.geteuid():
        front = ()
    for name, lines in {"fill": iter(_FILL), **jobs}.items():
        (directory / f"{name}.sql").write_text("".join(f"{line};\n" for line in lines), encoding="ascii")
    arguments = ("--single", "-D", str(data), "-c", "max_parallel_workers_per_gather=0", "postgres")
    made = {
        name: Run(arguments, (*front, "sh", "-c", 'exec "$@" <"$0"', str(directory / f"{name}.sql"))) for name in jobs
    }
    if not (data / "filled").exists():
        shutil.rmtree(data, ignore_errors=True)
        new = (*front, str(binaries / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres", "--locale=C", "-N")
        fill = Run(arguments, (*made["test"].front[:-1], str(directory / "fill.sql")))
        for command in (new, fill.words(str(binaries / "postgres"))):
            subprocess.run(command, cwd=directory, check=True, capture_output=True)
        (data / "filled").touch()
    return made["train"], made["test"], made["once"]
