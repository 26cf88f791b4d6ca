"""``python -m tests.kernels.days``: days of an ML engineer and of a Node shop, typed from the guides in a Debian 12.

Once in a virtual machine, whose disk is ext4 and whose kernel is Debian's 6.1, and once in a container of podman's on
overlayfs, with this machine's kernel.  Both have the same files: Debian's packages, and what pip and npm bring.  An
ordinary user types the first and the last block of a guide (tests/kernels/days_guest.py).  ``--write FILE`` writes what
was seen.  As root, with a network.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.build.manual import blocks
from tests.kernels import debian, machine
from tests.live.podman import Podman
from tests.support import ROOT

PACKAGES = "python3,python3-venv,nodejs,npm"
KERNEL = "6.1"
PLACE = debian.BUILD / "days"
USER = 1000
SECONDS = 3600
_MEMORY = 4096  # MiB: the copies are in memory
_TRAIN = """\
import os, time
import numpy, polars
one = numpy.random.default_rng(1).random((200, 200))
frame = polars.DataFrame({"key": [at % 7 for at in range(9999)], "value": range(9999)})
while True:
    numpy.linalg.solve(one, one)
    frame.group_by("key").agg(polars.col("value").sum())
    if not os.path.exists("ready"):
        with open("starting", "w") as file:
            print(os.getpid(), file=file)
        os.rename("starting", "ready")
    time.sleep(0.1)
"""
_SERVER = """\
const fs = require('fs'), css = require('lightningcss'), esbuild = require('esbuild'), sharp = require('sharp');
const code = Buffer.from('a { color: #ff0000; & b { margin: 1px 1px } }');
const create = { width: 64, height: 64, channels: 3, background: 'red' };
const work = () => sharp({ create }).resize(9).png().toBuffer().then(() => css.transform({ filename: 'a', code }));
work().then(() => esbuild.transform('export const f = (a, b) => a ?? b?.c;')).then(() => {
  const children = fs.readFileSync(`/proc/${process.pid}/task/${process.pid}/children`);
  fs.writeFileSync('starting', `${process.pid} ${children}`);
  fs.renameSync('starting', 'ready');
  setInterval(work, 100);
});
"""
_PACKAGE = {
    "name": "shop",
    "scripts": {"start": "node server.js"},
    "dependencies": {"esbuild": "*", "lightningcss": "*", "sharp": "0.34"},
}
#: By day: the guide, where it is typed, and the libraries that matter, with the per cent of their text to be huge.
DAYS = {
    "an ML engineer": (
        "python-wheels.md",
        "/srv/ml",
        {"_polars_runtime": 97, "libscipy_openblas64_": 85, "_multiarray_umath": 99, "python3.11": 70},
    ),
    "a Node shop": (
        "node-bun-deno.md",
        "/srv/shop",
        {"libnode.so": 99, "libvips-cpp.so": 99, "lightningcss.": 99, "esbuild": 99},
    ),
}
_PLAIN = {"/srv/ml": ".venv/bin/python train.py", "/srv/shop": "npm start"}
_SYSTEM = f"""\
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=755 tmpfs /run
export PATH=/usr/local/bin:/usr/bin:/bin HOME=/srv
setpriv --reuid={USER} --regid={USER} --clear-groups python3 /opt/days_guest.py >/dev/ttyS1
sync
echo o >/proc/sysrq-trigger
sleep 60
"""


def tree() -> Path:
    """Return a directory with the Debian, what was installed in it, and this hugealign.  Raises Unavailable."""
    PLACE.mkdir(parents=True, exist_ok=True)
    root = PLACE / "root"
    if not (PLACE / "complete").exists():
        shutil.rmtree(root, ignore_errors=True)
        _bootstrap(root)
        (PLACE / "complete").touch()
    shutil.rmtree(root / "opt")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("bin", "hugealign"):
        shutil.copytree(ROOT / name, root / "opt/hugealign" / name, symlinks=True, ignore=ignored)
    command = root / "usr/local/bin/hugealign"
    command.unlink(missing_ok=True)
    command.symlink_to("/opt/hugealign/bin/hugealign")
    shutil.copy(Path(__file__).with_name("days_guest.py"), root / "opt")
    (root / "opt/init").write_text(_SYSTEM, encoding="ascii")
    days = []
    for name, (page, directory, _) in DAYS.items():
        commands = [block.commands for block in blocks(ROOT / "docs/guides" / page) if block.how == "run by"]
        day = {"name": name, "in": directory, "plain": _PLAIN[directory], "typed": commands[0], "undo": commands[-1]}
        days.append(day)
    (root / "opt/day.json").write_text(json.dumps(days), encoding="utf-8")
    (root / "srv/ml/train.py").write_text(_TRAIN, encoding="ascii")
    (root / "srv/shop/server.js").write_text(_SERVER, encoding="ascii")
    subprocess.run(["chown", "-R", f"{USER}:{USER}", root / "srv"], check=True)
    return root


def _bootstrap(root: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--python-version=3.11"]
    site = root / "srv/ml/.venv/lib/python3.11/site-packages"
    shop = root / "srv/shop"
    for words in (
        ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root)],
        ["chroot", str(root), "python3", "-m", "venv", "--without-pip", "/srv/ml/.venv"],
        [*pip, f"--target={site}", "polars", "numpy"],
        ["npm", "install", "--silent", f"--prefix={shop}"],
    ):
        if words[0] == "npm":
            shop.mkdir()
            (shop / "package.json").write_text(json.dumps(_PACKAGE), encoding="ascii")
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=SECONDS)
        if done.returncode:
            raise debian.Unavailable(f"{words[0]}: {done.stderr.strip()[-300:]}")


def booted(root: Path) -> list[dict[str, Any]]:
    """Return what was seen in a virtual machine with the disk of *root*.  Raises Unavailable, RuntimeError."""
    machine.check_tools()
    debian.update()
    kernel = debian.kernel(KERNEL)
    log = PLACE / "machine.log"
    with tempfile.TemporaryDirectory(dir=PLACE) as name:
        image, initrd = Path(name, "disk"), Path(name, "initrd")
        with image.open("wb") as file:
            file.truncate(4 << 30)
        subprocess.run(["mke2fs", "-qFt", "ext4", "-d", root, image], check=True)
        machine.write_initrd(kernel, initrd, Path(name), machine.DEBIAN_INIT.format("/bin/sh /opt/init"))
        command = [
            *("nice", "-n", "5", "qemu-system-x86_64", "-accel", "tcg", "-smp", "1", "-m", str(_MEMORY)),
            # With cmpxchg16b, which NumPy's wheel needs.
            *("-cpu", "max", "-display", "none", "-monitor", "none", "-nodefaults", "-no-reboot"),
            *("-serial", f"file:{log}", "-serial", f"file:{log.with_suffix('.jsonl')}"),
            *("-kernel", str(kernel.image), "-initrd", str(initrd)),
            *("-append", "console=ttyS0 loglevel=4 panic=-1 no_timer_check"),
            *("-drive", f"file={image},if=virtio,format=raw,cache=unsafe"),
        ]
        return machine.sent(command, log, SECONDS)


def contained(root: Path) -> list[dict[str, Any]]:
    """Return what was seen in a container with the files of *root*, on overlayfs.  Raises MissingError."""
    with tempfile.TemporaryDirectory(dir=PLACE) as images, tempfile.TemporaryDirectory(prefix="days-") as state:
        engine = Podman("--root", images, "--runroot", state, "--storage-driver", "overlay")
        archive = Path(images, "root.tar")
        subprocess.run(["tar", "-cf", archive, "-C", root, "."], check=True)
        engine.run("import", "--quiet", archive, "days:1")
        archive.unlink()
        words = ("--env=HOME=/srv", f"--user={USER}:{USER}", "days:1", "python3", "/opt/days_guest.py")
        lines = [json.loads(line) for line in engine.finish(*words).splitlines()]
    if "done" not in lines[-1]:
        raise RuntimeError(lines[-1].get("error"))
    return lines[:-1]


def rows(results: Sequence[dict[str, Any]]) -> Iterator[tuple[str, int, int, int]]:
    """Yield each library of `DAYS` with the KiB of its text that are huge before and after, and of all after."""
    for day, (_, _, libraries) in DAYS.items():
        before, after = (
            {r["when"]: r for r in results if r["day"] == day}[when]["files"] for when in ("before", "after")
        )
        for library in libraries:
            (name,) = (name for name in after if name.startswith(library))
            yield name, before[name]["huge_kib"], after[name]["huge_kib"], after[name]["text_kib"]


PLACES = {"machine": booted, "container": contained}
_PAGE = """\
# Days of people who did not build it

After the two commands of a guide, every whole window of the text of eight libraries and programs from pip and npm is
huge, with Debian 12's kernel on ext4 and in a container on overlayfs.

| library, MiB | text | huge before | machine, huge after | container, huge after |
|---|--:|--:|--:|--:|
{rows}

What is left of polars, OpenBLAS and Python is before the first whole window and after the last.

## How it was made

`python -m tests.kernels.days --write docs/measured/days.md` wrote this, {day}. An ML engineer and a Node shop type
the two commands of [Python wheels](../guides/python-wheels.md) and of [Node, Bun and
Deno](../guides/node-bun-deno.md) in a Debian 12, as an ordinary user: in a virtual machine with Debian's kernel
{kernel} on ext4, emulated in software, and in a container of podman's on overlayfs, with Linux {release}. The program
touches all of its text. The MiB are those that `smaps` shows on huge pages; the text grows where a fix pads a window.
After the last command of each guide the files have their old bytes again.
"""


def page(results: Mapping[str, Sequence[dict[str, Any]]]) -> str:
    """Return the document for the *results* by place."""
    lines = []
    for there, here in zip(*(rows(results[place]) for place in PLACES), strict=True):
        name, before, machine, text = there
        mib = (f"{kib / 1024:.1f}" for kib in (text, before, machine, here[2]))
        lines.append(f"| {name} | {' | '.join(mib)} |")
    release = os.uname().release.partition("-")[0]
    return _PAGE.format(rows="\n".join(lines), day=time.strftime("%Y-%m-%d"), kernel=KERNEL, release=release)


def main() -> int:
    """Type the days in each place, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", metavar="FILE", required=True)
    args = parser.parse_args()
    root = tree()
    results = {place: see(root) for place, see in PLACES.items()}
    Path(args.write).write_text(page(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
