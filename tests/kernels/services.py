"""A stock Debian in a virtual machine that boots systemd: its services enabled, upgraded, booted again, undone.

One by one, or the whole machine by `enable --all` of the package.  The disk is ext4, the kernel Debian's own,
unchanged.  The guest runs tests/kernels/services_guest.py.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.build.manual import blocks
from tests.kernels import debian, machine
from tests.support import ROOT

#: The release, and the kernel that it ships.
RELEASES = {"bookworm": "6.1", "trixie": "6.12"}
JAVA = {"bookworm": "openjdk-17-jre-headless", "trixie": "openjdk-21-jre-headless"}
PACKAGES = (
    *("systemd-sysv", "dbus", "python3"),
    *("mariadb-server", "postgresql", "nginx", "redis-server"),
)
UPGRADED = ("mariadb-server", "mariadb-server-core")
SECONDS = 2400  # for one boot; ten minutes on an idle machine
DISK = 6 << 30

_UNIT = """\
[Unit]
Description=What the test does
After=network.target mariadb.service postgresql@{version}-main.service nginx.service redis-server.service jvm.service
[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/usr/bin/python3 /opt/guest.py {act}
Environment=HOME=/root
[Install]
WantedBy=multi-user.target
"""
#: A server that is Java and comes with the runtime.
_JVM = """\
[Service]
ExecStart=/usr/bin/rmiregistry
[Install]
WantedBy=multi-user.target
"""
#: A client that connects anew for each query, so that a process of the server starts for it.
_CLIENT = """\
[Unit]
After=postgresql@{version}-main.service
[Service]
User=postgres
ExecStart=/bin/sh -c 'while :; do /usr/lib/postgresql/{version}/bin/pgbench -n -C -S -T 60 postgres; sleep 1; done'
"""
#: What Debian builds has windows in fixed copies only, and two servers need more than two per cent of a small machine.
_POLICY = 'max = "20%"\ninclude = ["mariadb.service"]\nfix = true\n'
# Emulated, a start takes longer than systemd's ninety seconds.
_PATIENCE = "[Manager]\nDefaultTimeoutStartSec=1200\nDefaultTimeoutStopSec=600\n"
# Nor do the five that make copies at a boot, on one processor, end in the minute that `enable` gives each.
_LONGER = "[Service]\nTimeoutStartSec=1200\n"
_NEVER = ("apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer", "systemd-timesyncd.service")


def disk(release: str, act: str = "services") -> Path:
    """Make the disk of a fresh Debian *release* with the services, hugealign and the guest's script for an *act*.

    Raises debian.Unavailable.
    """
    place = debian.BUILD / "services"
    place.mkdir(parents=True, exist_ok=True)
    archive = place / f"{release}.tar"
    if not archive.exists():
        _bootstrap(release, archive)
    with tempfile.TemporaryDirectory(dir=place) as name:
        tree = Path(name)
        subprocess.run(["tar", "-xf", archive, "-C", tree], check=True)
        _prepare(tree, act)
        if act == "machine":
            _add_package(tree)
        else:
            _add_checkout(tree)
        tree.chmod(0o755)
        image = place / f"{release}-{act}.img"
        image.unlink(missing_ok=True)
        with image.open("wb") as file:
            file.truncate(DISK)
        subprocess.run(["mke2fs", "-qFt", "ext4", "-d", tree, image], check=True)
    return image


def _bootstrap(release: str, archive: Path) -> None:
    if not shutil.which("mmdebstrap"):
        raise debian.Unavailable("not installed: mmdebstrap")
    half = archive.with_suffix(".new.tar")
    # The packages of the upgrade stay in apt's cache: the guest has no network.
    fetch = f'chroot "$1" apt-get -qy --reinstall --download-only install {" ".join(UPGRADED)}'
    words = ["mmdebstrap", "--quiet", "--variant=apt", "--skip=cleanup/apt", f"--customize-hook={fetch}"]
    words.append(f"--include={','.join((*PACKAGES, JAVA[release]))}")
    done = subprocess.run([*words, release, half], check=False, capture_output=True, text=True, timeout=1800)
    if done.returncode:
        raise debian.Unavailable(f"mmdebstrap: {done.stderr.strip()[-200:]}")
    half.rename(archive)


def _add_checkout(tree: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("bin", "hugealign"):
        shutil.copytree(ROOT / name, tree / "opt/hugealign" / name, symlinks=True, ignore=ignored)
    (tree / "usr/bin/hugealign").symlink_to("/opt/hugealign/bin/hugealign")


def _add_package(tree: Path) -> None:
    place = debian.BUILD / "services/deb"
    subprocess.run([ROOT / "packaging/deb.sh", place, "--build=binary"], check=True, capture_output=True)
    (package,) = place.glob("hugealign_*.deb")
    shutil.copy(package, tree / "opt")
    (typed,) = (block for block in blocks(ROOT / "README.md") if block.what == "tests/live/test_machine.py")
    (tree / "opt/typed").write_text(typed.commands)
    (tree / "etc/hugealign.toml").write_text(_POLICY)


def _prepare(tree: Path, act: str) -> None:
    shutil.copy(Path(__file__).with_name("services_guest.py"), tree / "opt/guest.py")
    units = tree / "etc/systemd/system"
    (version,) = os.listdir(tree / "etc/postgresql")
    (units / "guest.service").write_text(_UNIT.format(version=version, act=act))
    (units / "client.service").write_text(_CLIENT.format(version=version))
    (units / "jvm.service").write_text(_JVM)
    for unit in ("guest", "jvm"):
        (units / "multi-user.target.wants" / f"{unit}.service").symlink_to(f"/etc/systemd/system/{unit}.service")
    for unit in _NEVER:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
    (tree / "etc/systemd/system.conf.d").mkdir(parents=True, exist_ok=True)
    (tree / "etc/systemd/system.conf.d/patience.conf").write_text(_PATIENCE)
    longer = tree / "usr/lib/systemd/system/hugealign-for-.service.d"
    longer.mkdir(parents=True)
    (longer / "patience.conf").write_text(_LONGER)
    (tree / "etc/fstab").write_text("/dev/vda / ext4 defaults 0 0\n")
    (tree / "etc/hostname").write_text("guest\n")


def boot(kernel: debian.Kernel, image: Path, log: Path) -> list[dict[str, Any]]:
    """Boot *kernel* with the disk *image*, which keeps what is written to it, and return what the guest sent.

    The console goes to *log*.  Raises RuntimeError if the guest did not come to its end.
    """
    results = log.with_suffix(".jsonl")
    with tempfile.TemporaryDirectory(dir=debian.BUILD) as name:
        initrd = Path(name, "initrd")
        machine.write_initrd(kernel, initrd, Path(name), machine.DEBIAN_INIT.format("/sbin/init"))
        command = [
            *("nice", "-n", "10", "qemu-system-x86_64", "-accel", "tcg", "-smp", "1", "-m", "2048"),
            *("-cpu", "max,cx16=off", "-display", "none", "-monitor", "none", "-nodefaults", "-no-reboot"),
            *("-serial", f"file:{log}", "-serial", f"file:{results}"),
            *("-kernel", str(kernel.image), "-initrd", str(initrd)),
            *("-append", "console=ttyS0 loglevel=4 panic=-1 no_timer_check systemd.show_status=1"),
            *("-drive", f"file={image},if=virtio,format=raw,cache=unsafe"),
        ]
        return machine.sent(command, log, SECONDS)
