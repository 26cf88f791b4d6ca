"""A mount namespace of our own, and files bound over files in it.

Only this process and its children see these mounts, which are gone with the last of them.  For an ordinary user the
mounts belong to a user namespace in which our own user and group are the only ones (user_namespaces(7)): set-user-ID
programs and file capabilities have no effect there, and other users' files belong to ``nobody``.  A process with
capabilities would lose them there, and stays outside.
"""

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Sequence

from hugealign.diagnosis.refusal import RefusalError
from hugealign.diagnosis.values import Diagnosis, unpacked
from hugealign.io.libc import libc, prctl, syscall
from hugealign.records import Record
from hugealign.system import children

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_SLAVE = 1, 2, 4, 32, 4096, 16384, 1 << 19
_MS_RELATIME = 1 << 21
_ST_RELATIME = 4096  # statvfs has the other flags where mount has them (include/linux/statfs.h)
_MS_OF_ST = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME
_MNT_DETACH = 2
# Same numbers on all architectures (include/uapi/asm-generic/unistd.h); linux/mount.h, linux/fcntl.h.
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT = 428, 429
_OPEN_TREE_CLONE, _AT_EMPTY_PATH = 1, 0x1000
_MOVE_MOUNT_F_EMPTY_PATH, _MOVE_MOUNT_T_EMPTY_PATH = 4, 0x40
_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_GET_SECUREBITS, _PR_SET_SECUREBITS = 23, 24, 27, 28
#: What the mount table has as the source of our tmpfs.
SOURCE = "hugealign"
_SELINUX = "/sys/fs/selinux/enforce"
#: Directories that exist nearly everywhere; the tmpfs covers one of them while files are copied.
_PLACES = ("/tmp", "/var/tmp", "/run", "/mnt", "/opt", "/srv", "/media")  # noqa: S108  # nothing is made in them


class Namespace(Record):
    """The namespace that this process is in since `enter`; *user*: inside a new user namespace."""

    user: bool

    def mount_tmpfs(self, covered: Sequence[str], *, huge: bool = True) -> str:
        """Mount a tmpfs that keeps files in huge pages, and return where: not above any of the paths *covered*.

        It does not hide modules either, which are loaded when they are needed.  Without *huge*, it keeps files in small
        pages.  Raises RefusalError.
        """
        kept = [*covered, *map(os.path.realpath, sys.path)]
        for place in _PLACES:
            if os.path.isdir(place) and not any(f"{path}/".startswith(f"{os.path.realpath(place)}/") for path in kept):
                mount_tmpfs(place, "mode=0755", huge=huge)
                return place
        raise RefusalError("process.no-mount-point")


def enter() -> Namespace:
    """Move this process into a mount namespace of its own, with a user namespace if it needs one for that.

    Raises RefusalError.  This cannot be undone: try it in a child first (`refusal`).
    """
    user = False
    if libc().unshare(_CLONE_NEWNS):
        uid, gid = os.geteuid(), os.getegid()
        if _capable():
            raise RefusalError("process.would-lose-privileges")
        bounds = [number for number in range(64) if prctl(_PR_CAPBSET_READ, number) == 0]
        secure = prctl(_PR_GET_SECUREBITS)
        if libc().unshare(_CLONE_NEWUSER | _CLONE_NEWNS):
            raise _error("unshare")
        user = True
        # A new user namespace starts without secure bits, and with all capabilities.
        if secure > 0:
            prctl(_PR_SET_SECUREBITS, secure)
        for number in bounds:
            prctl(_PR_CAPBSET_DROP, number)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            try:
                with open(f"/proc/self/{name}", "w", encoding="utf-8") as file:
                    file.write(text)
            except OSError as error:
                raise no_mounts(name, error.errno or 0) from error
    # We still see later mounts of others; they never see ours (mount_namespaces(7)).
    _mount("none", "/", "", _MS_REC | _MS_SLAVE, "")
    return Namespace(user)


def refusal() -> Diagnosis | None:
    """Return why this process may not have mounts of its own, None if it may; a child tries it."""

    def attempt() -> object:
        try:
            enter().mount_tmpfs([])
        except RefusalError as error:
            return error.diagnosis.packed()
        return ()

    answer = children.result(attempt)
    if answer is None:  # a guard has ended the child
        return Diagnosis("process.ended", "", {})
    return unpacked(answer) if answer else None


def tree(copy: int) -> int:
    """Return a mount of the open file *copy* that is not attached anywhere yet (open_tree(2), Linux 5.2).

    Raises RefusalError.
    """
    flags = _OPEN_TREE_CLONE | _AT_EMPTY_PATH | os.O_CLOEXEC
    try:
        return syscall(_SYS_OPEN_TREE, copy, b"", flags)
    except OSError as error:
        raise no_mounts("open_tree", error.errno or 0) from None


def attach(made: int, target: int) -> None:
    """Attach the mount *made* (`tree`) read-only over the open file *target*.

    By descriptor, because the owner of the directory could exchange the name, and we would cover another file.
    Read-only, because writes to a copy would be lost, and others may also use it.  Raises RefusalError.
    """
    flags = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH
    try:
        syscall(_SYS_MOVE_MOUNT, made, b"", target, b"", flags)
    except OSError as error:
        raise no_mounts("move_mount", error.errno or 0) from None
    try:
        _remount(made, _MS_RDONLY | _MS_NODEV)
    except RefusalError:
        libc().umount2(f"/proc/self/fd/{made}".encode(), _MNT_DETACH)
        raise


def mount_tmpfs(place: str, options: str, *, huge: bool = True) -> None:
    """Mount a tmpfs on *place* whose files are *huge* from the first byte, or never.  Raises RefusalError."""
    _mount(SOURCE, place, "tmpfs", _MS_NODEV, f"huge={'always' if huge else 'never'},{options}")


def without_privileges(mount: int) -> None:
    """Keep executables from conferring privileges on the *mount* whose root directory is open.  Raises RefusalError.

    Not under SELinux: unless its policy has nosuid_transition, a service would stay in the domain of what starts it
    (check_nnp_nosuid in security/selinux/hooks.c), and so be confined less than its file says.
    """
    if not nosuid(mount) and not os.path.exists(_SELINUX):
        _remount(mount, _MS_NOSUID | _MS_NODEV)


def _remount(mount: int, flags: int) -> None:
    """Add *flags* to those of the open *mount*."""
    # In a user namespace, the flags that the mount had outside have to stay (mount_namespaces(7)).
    had = os.fstatvfs(mount).f_flag
    flags |= had & (_MS_OF_ST | _MS_RDONLY) | (_MS_RELATIME if had & _ST_RELATIME else 0)
    _mount("none", f"/proc/self/fd/{mount}", "", _MS_REMOUNT | _MS_BIND | flags, "")


def detach(place: str) -> None:
    """Unmount what is mounted at *place*; open files and files bound from it stay.  Raises RefusalError."""
    if libc().umount2(os.fsencode(place), _MNT_DETACH):
        raise _error("umount2")


def nosuid(fd: int) -> bool:
    """Return whether the mount of the open file disables set-user-ID bits and capabilities."""
    return bool(os.fstatvfs(fd).f_flag & os.ST_NOSUID)


def noexec(fd: int) -> bool:
    """Return whether the mount of the open file forbids execution."""
    return bool(os.fstatvfs(fd).f_flag & os.ST_NOEXEC)


def privileged(file: int | str) -> bool:
    """Return whether executing the *file*, a descriptor or a path, gives privileges.

    Set-user-ID and set-group-ID do, and capabilities.
    """
    if os.stat(file).st_mode & (stat.S_ISUID | stat.S_ISGID):
        return True
    try:
        return bool(os.getxattr(file if isinstance(file, str) else f"/proc/self/fd/{file}", "security.capability"))
    except OSError:
        return False


def _capable() -> bool:
    """Return whether we are root, or have capabilities or several identities: we would lose these."""
    if 0 in os.getresuid() or len({*os.getresuid()}) > 1 or len({*os.getresgid()}) > 1:
        return True
    with open("/proc/self/status", encoding="utf-8", errors="surrogateescape") as file:
        return any(int(line.split()[1], 16) for line in file if line.startswith(("CapInh", "CapPrm", "CapAmb")))


def _mount(source: str, target: str, kind: str, flags: int, options: str) -> None:
    words = (os.fsencode(source), os.fsencode(target), kind.encode() or None)
    if libc().mount(*words, flags, options.encode() or None):
        raise _error("mount")


def no_mounts(call: str, number: int) -> RefusalError:
    """Return the error for a system call, or a file in /proc, that the kernel refused with the error *number*."""
    return RefusalError("process.no-mounts", call=call, error=errno.errorcode.get(number, str(number)))


def _error(call: str) -> RefusalError:
    return no_mounts(call, ctypes.get_errno())
