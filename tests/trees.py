"""A directory with programs and other things in it, for what walks over files."""

import io
import os
import shutil
import tarfile
from pathlib import Path

PROGRAM = Path("/bin/true")


def tar(*members: tuple[str, bytes], kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = len(data), kind, link
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def make(place: Path) -> Path:
    """A directory with programs at several depths, links of all kinds, and things that are not programs."""
    top = place / "top"
    for directory in ("b", "a/deep/er", "empty"):
        (top / directory).mkdir(parents=True)
    for name in ("z", "b/2", "b/1", "a/deep/er/program", "\udcff\nodd"):
        shutil.copy(PROGRAM, top / name)
    (top / "a/loop").symlink_to("..")
    (top / "link").symlink_to("z")
    (top / "b/hard").hardlink_to(top / "b/1")
    (top / "text").write_text("#!/bin/sh\n" * 100)
    (top / "tiny").write_text("x")
    os.mkfifo(top / "fifo")
    (top / "c.tar").write_bytes(tar(("m", PROGRAM.read_bytes())))
    return top
