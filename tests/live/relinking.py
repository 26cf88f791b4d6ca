"""Two programs to trace, to order and to link again: a generated one, and Debian's SQLite with its shell."""

import random
import shutil
import subprocess
from pathlib import Path

from tests.support import LLVM, MissingError

PHASES, FUNCTIONS, PER_PHASE, ROUNDS = 12, 2400, 220, 400
ALIGNED = ("-Wl,-z,separate-code", "-Wl,-z,max-page-size=0x200000")
LLD = ("-fuse-ld=lld", f"-B{LLVM['lld19']}")

_DRIVER = """\
typedef unsigned (*function)(unsigned);
extern const function table[];
int main(void) {
  unsigned seed = 1, sum = 0;
  for (unsigned phase = 0; phase < %(PHASES)d; phase++)
    for (unsigned round = 0; round < %(ROUNDS)d; round++)
      for (unsigned i = 0; i < %(PER_PHASE)d; i++) {
        seed = seed * 1664525u + 1013904223u;
        sum = table[phase * %(PER_PHASE)d + (seed >> 8) %% %(PER_PHASE)d](sum);
      }
  return sum == 0;
}
"""

_SQL = """\
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 4000)
  insert into t select i, printf('%08x', i * 2654435761), i * 0.37 from n;
create index tb on t(b);
select count(*), sum(length(b)), avg(c) from t where b like '%a%';
select substr(b, 1, 2) k, count(*), group_concat(a) from t group by k having count(*) > 3 order by k desc limit 20;
update t set b = upper(b) where a % 3 = 0;
delete from t where a % 7 = 0;
select x.a, y.b from t x join t y on y.a = x.a + 1 where x.c > 700 order by y.b limit 30;
select json_group_array(json_object('a', a, 'b', b)) from t where a < 60;
select date('2020-01-01', '+' || a || ' days'),
  strftime('%W', '2020-01-01', '+' || a || ' days') from t limit 90;
select a, row_number() over (order by b),
  sum(c) over (partition by a % 5 order by a) from t limit 200;
create view v as select a, b from t union select a + 100000, b from t;
select count(*) from v;
savepoint s; insert into t values (1, 'x', 1.0) on conflict(a) do update set b = 'y'; rollback to s; release s;
select * from t where b glob '[0-9]*A*' and a in (select a from t where c between 10 and 90);
pragma integrity_check;
vacuum;
explain query plan select * from t where b > 'f' order by c;
"""


def generated(directory: Path) -> list[str]:
    """Make the objects of a program that goes through phases, with other functions, two windows full of them."""
    chance = random.Random(7)
    lines = []
    for number in range(FUNCTIONS):
        fills = [chance.randrange(20, 1900) for _ in range(chance.randrange(1, 4))]
        body = [f"add ${number}, %eax"]
        for fill in fills:
            body += ["test %eax, %eax", "jmp 1f", f".fill {fill}, 1, 0x90", f"1: xor ${fill}, %eax"]
        lines += [
            f'.section .text.f{number},"ax",@progbits',
            ".p2align 4",
            f".globl f{number}",
            f".type f{number}, @function",
            f"f{number}: mov %edi, %eax",
            *body,
            "ret",
            f".size f{number}, . - f{number}",
        ]
    lines += ['.section .data.rel.ro,"aw"', ".globl table", "table:"]
    for _ in range(PHASES):
        lines += [f".quad f{number}" for number in chance.sample(range(FUNCTIONS), PER_PHASE)]
    lines.append('.section .note.GNU-stack,"",@progbits')
    (directory / "functions.s").write_text("\n".join(lines) + "\n")
    (directory / "driver.c").write_text(_DRIVER % {"PHASES": PHASES, "ROUNDS": ROUNDS, "PER_PHASE": PER_PHASE})
    for source in ("functions.s", "driver.c"):
        subprocess.run(["gcc", "-O1", "-ffunction-sections", "-c", source], cwd=directory, check=True)
    return ["functions.o", "driver.o"]


class UnavailableError(MissingError):
    """A part cannot be had here; the text says which, and why."""


def sqlite(directory: Path) -> list[str]:
    """Fetch Debian's source of SQLite, and compile it.  Raises UnavailableError."""
    if not shutil.which("tclsh"):
        raise UnavailableError("tclsh is not installed")
    sources = Path("/etc/apt/sources.list.d/debian.sources")
    if not sources.exists():
        raise UnavailableError(f"apt has no {sources}")
    (directory / "lists/partial").mkdir(parents=True)
    (directory / "source.sources").write_text(sources.read_text().replace("Types: deb\n", "Types: deb-src\n"))
    settings = {
        "Dir::Etc::SourceList": directory / "source.sources",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": directory / "lists",
        "APT::Sandbox::User": "root",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    for words in (["update"], ["source", "--download-only", "sqlite3"]):
        done = subprocess.run(
            ["apt-get", "-q", *options, *words], cwd=directory, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise UnavailableError(f"apt-get {words[0]}: {done.stderr.strip()}")
    (archive,) = (path for path in directory.glob("sqlite3_*.orig.tar.*") if path.suffix != ".asc")
    source = directory / "source"
    source.mkdir()
    for command in (
        ["tar", "xf", str(archive), "--strip-components=1"],
        ["./configure", "-q"],
        ["make", "-s", "sqlite3.c", "shell.c"],
    ):
        subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL)
    flags = ["-O1", "-ffunction-sections", "-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION"]
    for name in ("sqlite3", "shell"):
        subprocess.run(["gcc", *flags, "-c", f"source/{name}.c"], cwd=directory, check=True)
    (directory / "load.sql").write_text(_SQL)
    return ["sqlite3.o", "shell.o", "-lm"]
