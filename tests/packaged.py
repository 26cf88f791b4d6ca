"""ELF files of Debian's packages that tests/setup.sh installs: the same on each machine, whatever else it has."""

import subprocess
from functools import cache
from pathlib import Path

#: Programs, libraries, objects and debug files, some for other processors, one of them big-endian.
PACKAGES = (
    *("libc6", "libc-bin", "libc6-dev", "libc6-dbg", "libstdc++6", "bash", "coreutils", "dpkg", "perl-base"),
    *("util-linux", "binutils-x86-64-linux-gnu", "binutils-aarch64-linux-gnu", "binutils-s390x-linux-gnu"),
    *("libc6-dev-riscv64-cross", "libc6-dev-s390x-cross", "elfutils", "gdb", "git", "lld-14", "llvm-14", "mold"),
    *("qemu-user", "strace", "systemd", "tcc", "valgrind"),
)


def is_elf(path: Path) -> bool:
    """Return whether the file at *path* begins as an ELF file does."""
    try:
        with path.open("rb") as stream:
            return stream.read(4) == b"\x7fELF"
    except OSError:
        return False


@cache
def elf_files(*packages: str) -> tuple[Path, ...]:
    """Return the ELF files of *packages*, by default of `PACKAGES`, each once, in a fixed order."""
    answer = subprocess.run(
        ["dpkg-query", "-L", *(packages or PACKAGES)], check=False, capture_output=True, text=True
    ).stdout
    paths = sorted(set(map(Path, answer.splitlines())))
    files = [path for path in paths if path.is_file() and not path.is_symlink() and is_elf(path)]
    return tuple({(info.st_dev, info.st_ino): path for path in files if (info := path.stat())}.values())
