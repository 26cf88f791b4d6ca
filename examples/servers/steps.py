"""Steps that run once, as an ordinary user: stamps, logs, promises."""

import dataclasses
import hashlib
import json
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ANY = range(-64, 256)  # every status that a command can end with
ROOT = Path(__file__).resolve().parents[2]
# What a run's results come from.
_OURS = ("bin", "hugealign", "ld-scripts", "cmake", "examples")
_TEXTS = {"", ".c", ".cmake", ".in", ".ld", ".o", ".py", ".sh", ".sql", ".toml"}


class Failed(Exception):  # noqa: N818 - it ends the run, with *status*
    """A step failed: what, and where the rest of it stands."""

    def __init__(self, words: str, status: int = 1) -> None:
        super().__init__(words)
        self.status = status


@dataclasses.dataclass(slots=True)
class Steps:
    """A resumable run in *build*: stamps of finished steps with their seconds, a log for each, promises broken."""

    build: Path
    user: str  # who runs what root is not needed for
    began: float = dataclasses.field(default_factory=time.monotonic)
    broken: list[str] = dataclasses.field(default_factory=list)

    def say(self, words: str) -> None:
        """Print a line of progress, with the time since the start."""
        seconds = int(time.monotonic() - self.began)
        print(f"[{seconds // 60:02}:{seconds % 60:02}] {words}", flush=True)

    def promise(self, kept: bool, words: str) -> None:
        """Note *words* as broken unless *kept*."""
        if not kept:
            print(f"BROKEN: {words}", file=sys.stderr, flush=True)
            self.broken.append(words)

    def directory(self, *names: str) -> Path:
        """Return a directory below the build directory, made for the user if it is not there."""
        path = self.build
        for name in names:
            path /= name
            if not path.is_dir():
                path.mkdir()
                if os.geteuid() == 0:
                    os.chown(path, pwd.getpwnam(self.user).pw_uid, pwd.getpwnam(self.user).pw_gid)
        return path

    def shown(self, words: str) -> str:
        """Return *words* without the place of the build directory, which does not matter to readers."""
        return words.replace(f"{self.build}/", "")

    def log(self, name: str) -> Path:
        """Return where the log of the step *name* is."""
        return self.build / "logs" / f"{name}.log"

    # ---- stamps ------------------------------------------------------------------------------------------------------

    def resume(self) -> None:
        """Note which hugealign this run is of; raises Failed if steps were done with another.

        Their results would be published as this one's.  Debian's source is the same for all.
        """
        stamps = self.build / "stamps"
        note = stamps / ".version"
        before, now = note.read_text() if note.exists() else "", version()
        if before != now and any(stamp.name != "source" for stamp in stamps.glob("[!.]*")):
            raise Failed(f"{self.build} is of another version of hugealign: begin anew with --clean", 2)
        note.write_text(now)

    def seconds(self) -> dict[str, int]:
        """Return the seconds of the finished steps, in the order in which they were done."""
        values = sorted((self.build / "stamps").glob("[!.]*"), key=lambda path: path.stat().st_mtime_ns)
        return {path.name: int(path.read_text().split("\n", 1)[0]) for path in values}

    def step(self, name: str, words: str, make: Callable[[], Any]) -> Any:
        """Return what *make* returns, as JSON has it, or returned in an earlier run: the stamp keeps it."""
        stamp = self.build / "stamps" / name
        if stamp.exists():
            self.say(f"{words}: done before ({self.seconds()[name]} s)")
        else:
            self.say(f"{words} …")
            start = time.monotonic()
            result = json.dumps(make())
            beside = stamp.with_name(f".{name}")
            beside.write_text(f"{time.monotonic() - start:.0f}\n{result}\n")
            beside.replace(stamp)
            self.say(f"{words}: {self.seconds()[name]} s")
        return json.loads(stamp.read_text().split("\n", 1)[1])

    # ---- commands ----------------------------------------------------------------------------------------------------

    def as_user(self, *rights: str) -> list[str]:
        """Return what comes before a command that the user is to run, with *rights* in setpriv's words."""
        who: tuple[str, ...] = ()
        if os.geteuid() == 0:
            values = pwd.getpwnam(self.user)
            who = ("--reuid", str(values.pw_uid), "--regid", str(values.pw_gid), "--clear-groups")
        return ["setpriv", *who, *rights, "--"] if who or rights else []

    def run(
        self,
        command: Sequence[object],
        *,
        log: str,
        append: bool = False,
        cwd: Path | None = None,
        stdin: Path = Path(os.devnull),
        accept: Sequence[int] = (0,),
        rights: Sequence[str] = (),
    ) -> int:
        """Run *command* as the user, its output to a log; return the status; raise Failed if it is not in *accept*."""
        words = [*self.as_user(*rights), *map(str, command)]
        with self.log(log).open("a" if append else "w") as out, stdin.open("rb") as source:
            status = subprocess.run(
                words, stdin=source, stdout=out, stderr=subprocess.STDOUT, cwd=cwd or self.build, check=False
            ).returncode
        if status not in accept:
            tail = self.log(log).read_text(errors="replace").splitlines()[-25:]
            raise Failed("\n".join([*tail, f"{command[0]}: status {status}; the whole log: {self.log(log)}"]))
        return status

    def output(self, command: Sequence[object], accept: Sequence[int] = (0,)) -> str:
        """Return what *command*, run as the user, prints; raises Failed if its status is not one of *accept*."""
        words = [*self.as_user(), *map(str, command)]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, cwd=self.build, check=False)
        if done.returncode not in accept:
            printed = (done.stderr or done.stdout).decode(errors="replace").strip()
            raise Failed(f"{printed}\n{' '.join(map(str, command))}: status {done.returncode}")
        return done.stdout.decode(errors="replace")


def version() -> str:
    """Return what tells this hugealign, with its examples, from others."""
    values = hashlib.sha256()
    for path in sorted(path for name in _OURS for path in (ROOT / name).rglob("*")):
        if path.suffix in _TEXTS and path.is_file():
            values.update(b"%b\0%b\0" % (os.fsencode(path.relative_to(ROOT)), path.read_bytes()))
    return values.hexdigest()
