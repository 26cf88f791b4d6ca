"""The mount table, as the kernel writes it."""

import os
from pathlib import Path

import pytest

from hugealign.io import mounts
from hugealign.io.mounts import Mount


def _mount(kind: bytes, device: bytes = b"4000:1") -> Mount:
    return Mount(b"30", device, b"/", b"/mnt", kind, b"host:/export", b"rw")


def test_what_is_mounted_here() -> None:
    result = mounts.of_device(Path("/proc").stat().st_dev)
    assert result is not None
    assert (result.kind, mounts.text(result.place)) == (b"proc", "/proc")
    assert mounts.of_device(os.makedev(4000, 4000)) is None


def test_a_cut_table() -> None:
    whole = b"30 1 0:1 / /a\\040b rw,relatime shared:1 - tmpfs hugealign rw"
    assert [mounts.text(mount.place) for mount in mounts.parse(whole + b"\n" + whole[:40] + b"\nx - y")] == ["/a b"]


def test_a_process_that_is_gone_sees_nothing() -> None:
    assert list(mounts.seen(1 << 22)) == []


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (b"/a\\040b", "/a b"),
        (b"/tab\\011", "/tab\t"),
        (b"/\\134040", "/\\040"),
        (b"/\xff", "/\udcff"),
        (b"/\\9", "/\\9"),
    ],
)
def test_escapes(field: bytes, text: str) -> None:
    assert mounts.text(field) == text


@pytest.mark.parametrize(
    ("kind", "served"),
    [(b"nfs4", True), (b"fuse.sshfs", True), (b"fuseblk", True), (b"ext4", False), (b"nfsd", False)],
)
def test_what_a_server_has(kind: bytes, served: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "seen", lambda *_: iter([_mount(b"ext4", b"8:1"), _mount(kind)]))
    assert mounts.served(os.makedev(4000, 1), 1) is served
    assert not mounts.served(os.makedev(4000, 2), 1)


@pytest.mark.parametrize(
    ("path", "behind"),
    [
        ("/home/ada/bin/tool", True),
        ("/home/ada", True),
        ("/home/adam/bin/tool", False),
        ("/home", False),
        ("/", False),
    ],
)
def test_what_is_behind_a_server(path: str, behind: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy that is mounted over the tool is not on it, but its name is."""
    table = [(b"ext4", b"/"), (b"nfs4", b"/home/ada"), (b"tmpfs", b"/home/ada/bin/tool")]
    monkeypatch.setattr(mounts, "seen", lambda *_: iter([_mount(kind).changed(place=place) for kind, place in table]))
    assert mounts.behind_server(path) is behind


@pytest.mark.parametrize("path", ["/", "/bin/tool"])
def test_root_on_a_server(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "seen", lambda *_: iter([_mount(b"9p").changed(place=b"/")]))
    assert mounts.behind_server(path)


@pytest.mark.parametrize(
    ("options", "all_layers", "image"),
    [
        (b"rw,lowerdir=l/A:l/B,upperdir=u,workdir=w", ["u", "l/A", "l/B"], ["l/A", "l/B"]),
        (b"ro,lowerdir=l/A", ["l/A"], ["l/A"]),
        (b"rw,lowerdir+=/x\\040y,lowerdir+=/b,upperdir=/u", ["/u", "/x y", "/b"], ["/x y", "/b"]),
        (b"rw", [], []),
    ],
)
def test_layers(options: bytes, all_layers: list[str], image: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative ones are podman's, below the directory above that of the mount."""
    table = b"1 2 0:77 / /c/id/merged rw - overlay overlay %s\n1 2 0:78 / / rw - ext4 /dev/sda rw\n" % options
    monkeypatch.setattr(mounts, "seen", lambda _pid, word: mounts.parse(table, word))
    device = os.makedev(0, 77)
    assert mounts.layers(device) == [os.path.join("/c", layer) for layer in all_layers]
    assert mounts.layers(device, image=True) == [os.path.join("/c", layer) for layer in image]
    assert mounts.layers(os.makedev(0, 78)) == []
    assert mounts.layers(os.makedev(0, 79)) == []
