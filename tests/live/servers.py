"""A machine as many are, under load: a database, a JVM and a PHP site, for `top` and what it advises.

python -m tests.live.servers --write docs/measured/servers.md      # root, 4 GB of disk, Debian's archive; ten minutes

Debian's mariadb-server, Tomcat with its examples, and nginx before php-fpm with the JIT on, as services of a systemd
that boots (`booted`), on a file system that keeps no huge folios.  The commands that the screen names are run as they
stand there, from the first row to the last, and the screen is looked at again.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.live import filesystems
from tests.live.booted import System, booted
from tests.live.jit import php_site

PACKAGES = (
    "mariadb-server",
    "nginx",
    "php8.2-fpm",
    "php8.2-mysql",
    "tomcat10",
    "tomcat10-examples",
    "openjdk-17-jre-headless",
    "apache2-utils",
)
SERVICES = ("mariadb", "tomcat10", "php8.2-fpm", "nginx")
#: Ports that no other process should have: the network is that of the machine.
_SITE, _TOMCAT = 18480, 18481
_NGINX = f"""\
server {{
    listen 127.0.0.1:{_SITE};
    root /var/www/html;
    location ~ \\.php$ {{ include snippets/fastcgi-php.conf; fastcgi_pass unix:/run/php/php8.2-fpm.sock; }}
}}
"""
_JIT = "opcache.jit=function\nopcache.jit_buffer_size=64M\n"
_TABLE = """\
create database site; use site; create table t (n int primary key, w text);
insert into t select seq, md5(seq) from seq_1_to_20000;
create user 'www-data'@localhost identified via unix_socket; grant select on site.* to 'www-data'@localhost;
"""
_QUERY = "select count(*), sum(a.n * b.n % 7) from t a join t b on b.n between a.n and a.n + 30 where a.n < 4000"
_AB = ("ab", "-q", "-t", "10", "-n", "1000000", "-c")
#: Each runs again and again while there is load.
_LOADS = (
    (*_AB, "4", f"http://127.0.0.1:{_SITE}/site.php"),
    (*_AB, "2", f"http://127.0.0.1:{_TOMCAT}/examples/jsp/jsp2/el/functions.jsp?foo=a"),
    ("mariadb-slap", "--silent", "-c", "2", "--create-schema=site", f"--query={_QUERY}"),
)
_WARM_UP = 60.0  # seconds of load, for compilers to be done with what is hot
_AGAIN = 30.0
_SERVERS = ("java", "mariadbd", "php-fpm8.2", "nginx")
_PLACE = re.compile(
    r"(?<=<!-- python -m tests\.live\.servers --write docs/measured/servers\.md -->\n).*?(?=\n<!-- -->)", re.DOTALL
)


@dataclass(frozen=True)
class Screen:
    """What `top` shows: its *text*, and the *rows* in JSON, those of the servers only."""

    text: str
    rows: list[dict[str, Any]]

    @property
    def commands(self) -> list[str]:
        """The commands that the rows name, each once, as a person types them."""
        remedies = (row["diagnosis"]["remedy"] for row in self.rows if row["diagnosis"])
        argvs = [remedy["argv"] for remedy in remedies if remedy and remedy["argv"]]
        return list(dict.fromkeys(argv[2] if argv[:2] == ["sh", "-c"] else shlex.join(argv) for argv in argvs))


@contextlib.contextmanager
def machine(work: Path) -> Iterator[System]:
    """Boot it, with the services running."""
    with filesystems.mounted("btrfs", work, size=4 << 30) as at, booted(at, PACKAGES) as system:
        etc = system.root / "etc"
        (etc / "nginx/sites-available/default").write_text(_NGINX, encoding="ascii")
        (etc / "php/8.2/fpm/conf.d/99-jit.ini").write_text(_JIT, encoding="ascii")
        (etc / "mysql/mariadb.conf.d/99-local.cnf").write_text("[mysqld]\nskip-networking\n", encoding="ascii")
        server = etc / "tomcat10/server.xml"
        text = server.read_text(encoding="utf-8").replace('port="8080"', f'port="{_TOMCAT}"')
        server.write_text(text, encoding="utf-8")
        php_site(system.root / "var/www/html")
        done(system, "systemctl", "restart", *SERVICES)
        done(system, "mariadb", "-e", _TABLE)
        yield system


def done(system: System, *words: str) -> str:
    """Run a command that must succeed."""
    result = system.run(*words)
    if result.returncode:
        raise RuntimeError(f"{' '.join(words)}: {result.stderr or result.stdout}")
    return result.stdout


@contextlib.contextmanager
def load(system: System) -> Iterator[None]:
    """Have the servers work."""
    ended = threading.Event()

    def run(words: tuple[str, ...]) -> None:
        while not ended.is_set():
            if system.run(*words).returncode:  # the server is being started
                time.sleep(0.5)

    threads = [threading.Thread(target=run, args=(words,)) for words in _LOADS]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def look(system: System) -> Screen:
    """Return what `top` shows of the last five seconds."""
    words = ("top", "--seconds", "5")
    rows = json.loads(system.hugealign(*words, "--json").stdout)["rows"]
    return Screen(
        system.hugealign(*words).stdout, [row for row in rows if os.path.basename(row["program"]) in _SERVERS]
    )


def mend(system: System, screen: Screen) -> Iterator[tuple[str, str]]:
    """Run the commands of *screen*, as its reader would; yield each, and what it says."""
    for command in screen.commands:
        result = system.run("sh", "-c", f"PATH=/opt/hugealign/bin:$PATH; {command}")
        yield command, result.stdout + result.stderr


def tour(system: System) -> Iterator[Screen | tuple[str, str]]:
    """Yield the screen, each command that it names with what that says, and the screen again, until no row has one."""
    with load(system):
        time.sleep(_WARM_UP)
        for _ in range(3):
            screen = look(system)
            yield screen
            if not screen.commands:
                break
            yield from mend(system, screen)
            time.sleep(_AGAIN)


def written(steps: list[Screen | tuple[str, str]]) -> str:
    """Return what the document shows: how many windows are huge, the first screen, the commands, the last screen."""
    texts = [step.text for step in steps if isinstance(step, Screen)]
    screens = [_of_servers(text) for text in texts]
    commands = [f"# {step[0]}" for step in steps if not isinstance(step, Screen)]
    before, after = (re.search(r"(\d+) windows are huge, (\d+) could be", text) for text in (texts[0], texts[-1]))
    assert before
    assert after
    shown = f"After the commands that `top` names, {after[1]} windows are huge instead of {before[1]}; "
    return "\n".join(
        [
            f"{shown}{after[2]} could be.",
            "",
            *("<details><summary>Before</summary>", "", "```", *screens[0], "```", "", "</details>", ""),
            *("<details><summary>The commands</summary>", "", "```", *commands, "```", "", "</details>", ""),
            *("<details open><summary>Afterwards</summary>", "", "```", *screens[-1], "```", "", "</details>"),
        ]
    )


def _of_servers(text: str) -> list[str]:
    """Return the lines of the screen *text* about the servers, and what stands above."""
    lines = [line.rstrip() for line in text.splitlines()]
    head = next(at for at, line in enumerate(lines) if line.startswith("PROCS")) + 1
    shown = lines[:head]
    of_server = False
    for line in lines[head:]:
        if not line.startswith("       "):  # what is below a row is about its program
            of_server = any(f"/{name}" in line for name in _SERVERS)
        shown += [line] if of_server else []
    return shown


def main() -> int:
    """Show it, and write the document."""
    parser = argparse.ArgumentParser(prog="python -m tests.live.servers", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", type=Path, help="the document")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hugealign-live-") as name:
        work = Path(name)
        work.chmod(0o755)
        steps = []
        with machine(work) as system:
            for step in tour(system):
                steps.append(step)
                print(step.text if isinstance(step, Screen) else f"# {step[0]}\n{step[1]}", flush=True)
    if args.write:
        text = args.write.read_text(encoding="utf-8")
        args.write.write_text(_PLACE.sub(lambda _: written(steps), text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
