"""Docker's engine as Debian has it, with its default seccomp profile, on btrfs and with overlays on ext4.

No option allows a container more than by default, unless a test is about that option.  The engine has no network, since
it would change the machine's.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import filesystems
from tests.live import stock as stocks
from tests.live.booted import HUGEALIGN, booted, debian
from tests.live.podman import until_ready
from tests.live.programs import ROOT, WINDOW, WINDOWS, Programs, hugealign
from tests.live.test_trees import linked
from tests.support import MissingError, need, worded

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(900)]
ALL = WINDOWS * WINDOW >> 10
SERVER = "/usr/local/bin/server"
FILES = ROOT / "examples" / "containers"
#: The profile of podman, which lets ordinary users make namespaces.
_PROFILE = Path("/usr/share/containers/seccomp.json")
_ALONE = ("--bridge=none", "--iptables=false", "--ip-masq=false")


class Docker:
    """An engine of our own, with its images below *place* and its sockets below *state*."""

    def __init__(self, place: Path, state: Path) -> None:
        self.place, self.state = place, state
        self._engine: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the engine, and wait until it answers.  Raises MissingError."""
        words = ["dockerd", *_ALONE, "--data-root", f"{self.place}/docker", "--exec-root", f"{self.state}/exec"]
        words += ["--pidfile", f"{self.state}/pid", "--host", f"unix://{self.state}/sock"]
        with (self.state / "log").open("ab") as log:
            self._engine = subprocess.Popen(words, stdout=log, stderr=log)
        for _ in range(300):
            with contextlib.suppress(MissingError):
                self.run("version")
                return
            time.sleep(0.1)
        raise MissingError(f"dockerd: {(self.state / 'log').read_text(errors='replace')[-300:]}")

    def stop(self) -> None:
        """Stop the engine, and with it all containers."""
        assert self._engine
        self._engine.terminate()
        self._engine.wait(60)
        subprocess.run(["umount", "--lazy", self.state / "exec/netns/default"], check=False, capture_output=True)

    def run(self, *words: object) -> str:
        """Return what docker says to *words*.  Raises MissingError."""
        command = ["docker", "--host", f"unix://{self.state}/sock", *map(str, words)]
        environ = os.environ | {"DOCKER_BUILDKIT": "0"}
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600, env=environ)
        if done.returncode:
            raise MissingError(f"docker {words[0]}: {done.stderr.strip()[-300:]}")
        return (done.stdout + (done.stderr if words[0] == "logs" else "")).strip()

    def build(self, tag: str, file: Path, context: Path) -> None:
        self.run("build", "--quiet", "--network=host", "--tag", tag, "--file", file, context)

    @contextlib.contextmanager
    def running(self, *words: object) -> Iterator[tuple[str, int, str]]:
        """Run a container until it says ``ready``; yield its name, the PID of its first process, and what it said."""
        name = self.run("run", "--detach", "--network=none", *words)
        try:
            message = until_ready(self.run, name)
            yield name, self.pid(name), message
        finally:
            self.run("rm", "--force", name)

    def pid(self, name: str) -> int:
        return int(self.run("inspect", "--format", "{{.State.Pid}}", name))


def huge_kib(pid: int) -> int:
    """Return the KiB of files and copies that the process maps with huge pages."""
    lines = Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("ShmemPmdMapped:", "FilePmdMapped:")))


@pytest.fixture(scope="module", params=["btrfs", "ext4"])
def docker(request: pytest.FixtureRequest, built: Programs) -> Iterator[Docker]:
    if os.geteuid():
        pytest.skip("root is needed")
    need("dockerd", "docker", "containerd", "runc")
    work = built.directory / f"docker-{request.param}"
    work.mkdir()
    with (
        tempfile.TemporaryDirectory(prefix="huge-") as state,
        filesystems.mounted(request.param, work, size=4 << 30) as at,
    ):
        engine = Docker(at, Path(state))
        engine.start()
        try:
            engine.run("import", debian(()), "debian:12-slim")
            context = work / "context"
            context.mkdir()
            shutil.copy(built.good, context / "server")
            (context / "plain").write_text(f"FROM debian:12-slim\nCOPY server {SERVER}\n")
            engine.build("hugealign:1", FILES / "Dockerfile", ROOT)
            engine.build("server-hugealign:1", FILES / "server.Dockerfile", context)
            engine.build("server:1", context / "plain", context)
            yield engine
        finally:
            engine.stop()


_NARROW = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges")


@pytest.mark.parametrize("user", ["0", "65534"])
@pytest.mark.parametrize("options", [(), _NARROW, ("--memory=64m",)], ids=["", "narrow", "limited"])
def test_entrypoint(docker: Docker, user: str, options: tuple[str, ...]) -> None:
    with docker.running(f"--user={user}", *options, "server-hugealign:1", SERVER, "5") as (_, pid, said):
        assert (huge_kib(pid), said) == (ALL, "ready")
        assert Path(f"/proc/{pid}/comm").read_text() == "server\n"
        assert ": all 3 windows are huge\n" in hugealign("ps", str(pid)).stdout


def test_a_command_without_brackets(docker: Docker) -> None:
    with docker.running("server-hugealign:1", "sh", "-c", f"{SERVER} 5") as (_, _, said):
        assert "by CMD's exec form" in said


def test_a_limit_that_the_program_needs_itself(docker: Docker, built: Programs, tmp_path: Path) -> None:
    """A copy of 38 MiB, which the kernel could not drop, would leave too little of 64 for 40 more."""
    shutil.copyfile(built.good, tmp_path / "server")
    with (tmp_path / "server").open("ab") as file:
        file.write(os.urandom(1 << 20) * 32)
    (tmp_path / "server").chmod(0o755)
    docker.build("larger:1", FILES / "server.Dockerfile", tmp_path)
    takes = ("python3", "-c", "bytearray(b'x') * (40 << 20)")
    for options in ((), ("--entrypoint=hugealign",)):
        words = ("run", "--how=copy", "--fix", "--") if options else ()
        with docker.running("--memory=64m", *options, "larger:1", *words, SERVER, "5") as (name, _, _):
            docker.run("exec", name, *takes)
            assert docker.run("inspect", "--format", "{{.State.Running}} {{.State.OOMKilled}}", name) == "true false"


@pytest.mark.parametrize("profile", [False, True])
def test_libraries(docker: Docker, built: Programs, profile: bool) -> None:
    """They need a mount, which Docker's own profile forbids, and podman's allows to an ordinary user."""
    directory = built.directory / f"libraries-{docker.place.name}-{profile}"
    (directory / "app").mkdir(parents=True)
    for path in linked(directory):
        shutil.copy(path, directory / "app")
    (directory / "file").write_text("FROM hugealign:1\nCOPY app /opt/app\nUSER 65534\n")
    docker.build("loads:1", directory / "file", directory)
    if profile and not _PROFILE.exists():
        raise MissingError("the profile of podman is not installed")
    options = (f"--security-opt=seccomp={_PROFILE}", *_NARROW) if profile else ()
    words = ("run", "--fix", "--file", "/opt/app", "--", "/opt/app/loads", "/opt/app/libpacked.so")
    with docker.running(*options, "--entrypoint=hugealign", "loads:1", *words) as (_, pid, said):
        if profile:
            assert (huge_kib(pid), said) == (3 * WINDOW >> 10, "ready 1")
        else:
            assert worded("process.no-mounts", call="unshare", error="EPERM") in said
            assert "hugealign explain process.no-mounts" in said


#: For the packages in the page's blocks: a script that says ``ready``, and the windows that are huge by default.
INTERPRETED = {
    "nodejs": ("app.js", "console.log('ready'); setInterval(() => {}, 1000);", 0),
    "python3": ("app.py", "import time; print('ready', flush=True); time.sleep(1000)", 1),
}


@pytest.mark.parametrize("package", INTERPRETED)
def test_interpreters(docker: Docker, built: Programs, package: str) -> None:
    """The blocks of the page: all of the interpreter's text with a right to mount, by default what the page says."""
    page = (ROOT / "docs/guides/containers.md").read_text(encoding="utf-8")
    (block,) = [block for block in page.split("```") if f"recommends {package} " in block]
    name, script, default = INTERPRETED[package]
    directory = built.directory / f"{package}-{docker.place.name}"
    directory.mkdir()
    (directory / name).write_text(script)
    (directory / "Dockerfile").write_text(block.removeprefix("dockerfile\n"))
    docker.build(package, directory / "Dockerfile", directory)
    with docker.running(package) as (_, pid, said):
        assert huge_kib(pid) == default * WINDOW >> 10
        assert worded("process.no-mounts", call="unshare", error="EPERM") in said
    if not _PROFILE.exists():
        raise MissingError("the profile of podman is not installed")
    with docker.running(f"--security-opt=seccomp={_PROFILE}", package) as (_, pid, said):
        assert (huge_kib(pid) > default * WINDOW >> 10, said) == (True, "ready")


@pytest.mark.parametrize("staged", ["before", "after"])
def test_volume_after_a_boot(docker: Docker, built: Programs, staged: str) -> None:
    """A boot: the engine ends, the store is gone; a container that restarts always comes back with the engine."""
    with stocks.store(built.directory) as store:
        program = built.copy(f"of-docker-{docker.place.name}-{staged}")
        assert hugealign("stage", "--store", store, program).returncode == 0
        volume = f"--volume={store}/path{program}:{SERVER}:ro"
        with docker.running("--restart=always", volume, "server:1", SERVER, "5") as (name, pid, _):
            assert huge_kib(pid) == ALL
            docker.stop()
            subprocess.run(["umount", "--lazy", store], check=True)
            store.rmdir()
            if staged == "before":
                assert hugealign("stage", "--store", store, program).returncode == 0
            docker.start()
            if staged == "after":
                assert Path(f"{store}/path{program}").is_dir()
                assert hugealign("stage", "--store", store, program).returncode == 0
                docker.run("restart", name)
            time.sleep(1)
            assert huge_kib(docker.pid(name)) == ALL


_DOCKER = """[Service]
Type=oneshot
ExecStart=cp /run/hugealign/path/srv/server /run/at-the-start-of-docker
[Install]
WantedBy=multi-user.target
"""


def test_the_example_stages_before_docker_starts(built: Programs) -> None:
    """At a boot of systemd, with a unit of docker's name that looks whether the copy is there."""
    if os.geteuid():
        pytest.skip("root is needed")
    root = built.directory / "boots"
    root.mkdir()
    unit = (ROOT / "examples/systemd/hugealign-stage.service").read_text(encoding="utf-8")
    with booted(root) as system:
        shutil.copy(built.good, root / "srv/server")
        system.write_unit("hugealign-stage.service", unit.replace("/usr/bin/hugealign", HUGEALIGN))
        system.write_unit("docker.service", _DOCKER)
        assert system.run("systemctl", "enable", "docker", "hugealign-stage").returncode == 0
    with booted(root) as system:
        assert system.run("cmp", "/srv/server", "/run/at-the-start-of-docker").returncode == 0
