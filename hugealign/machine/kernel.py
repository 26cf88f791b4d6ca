"""What this kernel says about itself: its huge page size, its file systems, its free memory."""

import functools
import os

_PMD_SIZE = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"
_USUAL = 2 << 20


@functools.cache
def huge_page_size(path: str = _PMD_SIZE) -> int:
    """Return the bytes that one PMD maps on this kernel; 2 MiB where it does not say (no THP built in)."""
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return _USUAL


def available_memory() -> int | None:
    """Return the bytes that can be used without swapping (``MemAvailable``), or None without /proc."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    return None


def file_system(device: int) -> str | None:
    """Return the type (``ext4``) of the mounted file system whose ``st_dev`` is *device*, or None.

    Format: Documentation/filesystems/proc.rst 3.5; the type follows the ``-`` field.  None for btrfs
    subvolumes, whose ``st_dev`` is in no mount table.
    """
    name = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                fields = line.split(" ")
                if fields[2] == name:
                    return fields[fields.index("-") + 1]
    except (OSError, ValueError, IndexError):
        pass
    return None


def file_system_of(fd: int) -> str | None:
    """Return the type of the file system on which the open file *fd* lies, by its mount; btrfs too."""
    kind = _mount_of(fd)
    return kind[0] if kind else None


def mount_options_of(fd: int) -> list[str]:
    """Return the options of the file system on which the open file *fd* lies; none if they cannot be seen."""
    kind = _mount_of(fd)
    return kind[-1].split(",") if kind else []


def _mount_of(fd: int) -> list[str]:
    """Return type, source and options of the mount of *fd*, the fields behind ``-`` (proc.rst 3.5)."""
    try:
        with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
            mount = next(line.split()[1] for line in file if line.startswith("mnt_id:"))
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            fields = next(fields for fields in (line.split() for line in file) if fields[0] == mount)
            return fields[fields.index("-") + 1 :]
    except (OSError, ValueError, IndexError, StopIteration):
        return []
