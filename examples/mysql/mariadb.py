"""How MariaDB's server is configured, built, tested and linked again."""

import re
import shlex
from pathlib import Path

from steps import Failed, Steps

PACKAGE = "mariadb"
BUILD_PACKAGES = (
    *("gcc", "g++", "libc6-dev", "make", "cmake", "bison", "perl", "dpkg-dev", "procps"),
    *("libncurses-dev", "libssl-dev", "zlib1g-dev", "libpcre2-dev", "libfmt-dev"),
)

# Engines and plugins that a server of InnoDB tables does without; most would want further libraries, too.
_WITHOUT = """
ARCHIVE AUTH_ED25519 AUTH_GSSAPI AUTH_PAM AWS_KEY_MANAGEMENT BLACKHOLE COLUMNSTORE CONNECT CRACKLIB_PASSWORD_CHECK
DAEMON_EXAMPLE EXAMPLE FEDERATED FEDERATEDX FEEDBACK HANDLERSOCKET HASHICORP_KEY_MANAGEMENT MROONGA OQGRAPH
PROVIDER_BZIP2 PROVIDER_LZ4 PROVIDER_LZMA PROVIDER_LZO PROVIDER_SNAPPY ROCKSDB S3 SPHINX SPIDER TEST_SQL_DISCOVERY
""".split()

_OPTIONS = """
-DCMAKE_BUILD_TYPE=Release -DWITH_WSREP=OFF -DWITH_UNIT_TESTS=OFF -DWITH_EMBEDDED_SERVER=OFF -DWITH_MARIABACKUP=OFF
-DWITH_SYSTEMD=no -DWITH_SSL=system -DWITH_ZLIB=system -DWITH_PCRE=system -DWITH_LIBFMT=system -DWITH_READLINE=ON
-DWITH_LIBAIO=OFF -DWITH_URING=OFF -DIGNORE_AIO_CHECK=ON -DWITH_NUMA=OFF -DCONC_WITH_UNIT_TEST=OFF
-DCONC_WITH_CURL=OFF -DCONC_WITH_EXTERNAL_ZLIB=ON -DCLIENT_PLUGIN_REMOTE_IO=OFF -DCLIENT_PLUGIN_AUTH_GSSAPI_CLIENT=OFF
""".split()

# Every function in a section of its own, so that one compilation serves all links, those with an order too.
_FLAGS = "-ffunction-sections"
_RELEASE = "-O2 -DNDEBUG"

SERVER = "mariadbd"
# What the test suite and this example run beside the server.
TOOLS = """
mariadb mariadb-admin mariadb-binlog mariadb-check mariadb-conv mariadb-dump mariadb-import mariadb-plugin mariadb-show
mariadb-slap mariadb-test mariadb-tzinfo-to-sql mariadb-upgrade my_print_defaults my_safe_process mariadbd-safe-helper
perror replace resolveip innochecksum mariadb-client-test myisamchk myisamlog myisampack myisam_ftdump aria_chk
aria_pack GenFixPrivs
""".split()

# Whose versions decide which blocks run: what the server is made by, what is in its process, and what traces it.
COUNTING_PACKAGES = (
    *("gcc-12", "g++-12", "binutils", "cmake", "bison", "libc6", "libstdc++6", "libgcc-s1", "qemu-user"),
    *("libssl3", "zlib1g", "libpcre2-8-0", "libfmt9", "libcrypt1"),
)

# Of the suite "main": the SQL layer from parser to optimiser, and InnoDB; a few minutes.
TESTS = """
1st alter_table auto_increment bigint case cast commit_1innodb compare count_distinct create cte_nonrecursive
cte_recursive delete derived distinct func_group func_if func_in func_json func_math func_str func_time group_by having
innodb_icp insert join join_outer limit null order_by ps select sp subselect trigger type_newdecimal union update view
win
""".split()


def configure(source: Path, toolchain: Path) -> list[str]:
    """Return the CMake command, to be run in the build tree."""
    return [
        "cmake", str(source), f"-DCMAKE_TOOLCHAIN_FILE={toolchain}",
        *(f"-DCMAKE_{language}_FLAGS={_FLAGS}" for language in ("C", "CXX")),
        *(f"-DCMAKE_{language}_FLAGS_RELEASE={_RELEASE}" for language in ("C", "CXX")),
        *_OPTIONS, *(f"-DPLUGIN_{name}=NO" for name in _WITHOUT),
    ]  # fmt: skip


_RELINK = """\
#!/bin/sh
# relink.sh OUT [COMPILER [WORD ...]]: link mariadbd from the same objects again, by default with plain {compiler}.
# Made by examples/mysql/run.py from CMake's own command (sql/CMakeFiles/mariadbd.dir/link.txt), less hugealign's -B.
#   relink.sh /tmp/plain
#   relink.sh /tmp/huge hugealign g++
#   HUGEALIGN_PROFILE=$PWD/server.order relink.sh /tmp/ordered hugealign g++
#   relink.sh /tmp/lld g++ -fuse-ld=lld -Wl,--emit-relocs
set -eu
if [ $# -eq 0 ]; then
    echo 'usage: relink.sh OUT [COMPILER [WORD ...]]' >&2
    exit 2
fi
case $1 in /*) out=$1 ;; *) out=$PWD/$1 ;; esac
shift
if [ $# -eq 0 ]; then set -- {compiler}; fi
cd {directory}
exec "$@" {before} -o "$out" {after}
"""


def relink_script(command: str, directory: Path) -> str:
    """Return a script that does the link *command*, CMake's, of *directory* with another compiler; raises Failed."""
    words = [word for word in shlex.split(command) if not re.fullmatch(r"-B.*/libexec/", word)]
    if words.count("-o") != 1 or words[words.index("-o") + 1 :][:1] != [SERVER]:
        raise Failed(f"CMake's link command of {SERVER} has not the form that is known: {command.strip()}")
    at = words.index("-o")
    return _RELINK.format(
        compiler=shlex.quote(words[0]),
        directory=shlex.quote(str(directory)),
        before=shlex.join(words[1:at]),
        after=shlex.join(words[at + 2 :]),
    )


def version(source: Path) -> str:
    """Return the version in Debian's changelog."""
    with (source / "debian" / "changelog").open(encoding="utf-8") as stream:
        found = re.search(r"\((.*?)\)", stream.readline())
    return found[1] if found else "unknown"


def tested(log: str) -> tuple[int, int, int]:
    """Return how many tests passed, were skipped and failed, by what mysql-test-run printed line by line."""
    verdicts = re.findall(r"(?m)^\S+\s.*?\[ (pass|skipped|fail|disabled)\b", log)
    return (
        verdicts.count("pass"),
        verdicts.count("skipped") + verdicts.count("disabled"),
        verdicts.count("fail"),
    )


def check(work: Steps, tree: Path) -> dict[str, int]:
    """Run the fixed list of tests; return the counts."""
    var = work.directory("mtr")
    command = [
        "perl", "./mariadb-test-run.pl", "--suite=main", "--force", "--parallel=2", "--retry=1", "--max-test-fail=0",
        "--testcase-timeout=10", f"--vardir={var}/var", *TESTS,
    ]  # fmt: skip
    status = work.run(command, log="check", cwd=tree / "mysql-test", accept=range(256))
    passed, skipped, failed = tested(work.log("check").read_text(errors="replace"))
    return {"status": status, "asked": len(TESTS), "passed": passed, "skipped": skipped, "failed": failed}
