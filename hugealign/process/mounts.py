"""Whether a server has a file that a process sees: then a look at it may wait for an answer that never comes."""

import os

#: Besides FUSE (filesystems(5), and Documentation/filesystems/proc.rst 3.5 for the form).
_SERVED = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs", "lustre", "beegfs", "gpfs")
_LIMIT = 16 << 20  # bytes of a mount table


def served(device: int, pid: int) -> bool:
    """Return whether the file system with the ``st_dev`` *device*, among the mounts of *pid*, is a server's."""
    name = f"{os.major(device)}:{os.minor(device)}".encode()
    try:
        with open(f"/proc/{pid}/mountinfo", "rb") as file:
            for line in file.read(_LIMIT).splitlines():
                mount, _, kind = line.partition(b" - ")
                if mount.split(b" ")[2] == name:
                    found = kind.partition(b" ")[0].decode("latin-1")
                    return found.startswith("fuse") or found in _SERVED
    except (OSError, IndexError):
        pass
    return False
