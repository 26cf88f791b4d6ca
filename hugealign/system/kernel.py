"""Facts from this kernel: its huge page size, its file systems, its free memory."""

import functools
import os

from hugealign.elf.machines import native, page_size_of
from hugealign.io import mounts
from hugealign.io.mounts import Mount
from hugealign.settings import OWN

#: The directory of the kernel's settings for huge pages (Documentation/admin-guide/mm/transhuge.rst).
THP = "/sys/kernel/mm/transparent_hugepage"
_PMD_SIZE = f"{THP}/hpage_pmd_size"


@functools.cache
def huge_page_size(path: str = _PMD_SIZE) -> int:
    """Return the bytes that one PMD maps on this kernel; if it does not say (no THP), those usual for the processor."""
    try:
        with open(path, encoding="utf-8") as file:
            return int(file.read())
    except (OSError, ValueError):
        return page_size_of(native(), OWN)


def has_thp() -> bool | None:
    """Return whether this kernel has transparent huge pages, on this processor; None if /sys cannot be seen."""
    return os.path.exists(f"{THP}/enabled") if os.path.isdir(os.path.dirname(THP)) else None


def thp_mode(name: str) -> str:
    """Return the word that the setting *name* (``shmem_enabled``) has chosen; empty without such a setting."""
    try:
        with open(f"{THP}/{name}", encoding="utf-8") as file:
            return file.read().partition("[")[2].partition("]")[0]
    except (OSError, ValueError):
        return ""


def available_memory() -> int | None:
    """Return the bytes that are available without swapping (``MemAvailable``), or None without /proc."""
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    return None


def file_system(device: int) -> str | None:
    """Return the type (``ext4``) of the file system with the ``st_dev`` *device*; None as in `mounts.of_device`."""
    mount = mounts.of_device(device)
    return mount.kind.decode("ascii", "replace") if mount else None


def file_system_of(fd: int) -> str | None:
    """Return the type of the file system of the open file *fd*, from its mount; works for btrfs too."""
    mount = _mount_of(fd)
    return mount.kind.decode("ascii", "replace") if mount else None


def mount_options_of(fd: int) -> list[str]:
    """Return the options of the file system of the open file *fd*; none if they cannot be read."""
    mount = _mount_of(fd)
    return mounts.text(mount.options).split(",") if mount else []


def _mount_of(fd: int) -> Mount | None:
    try:
        with open(f"/proc/self/fdinfo/{fd}", "rb") as file:
            number = next(line.split()[1] for line in file if line.startswith(b"mnt_id:"))
    except (OSError, StopIteration):
        return None
    return next((mount for mount in mounts.seen(word=number) if mount.number == number), None)
