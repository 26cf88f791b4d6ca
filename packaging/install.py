"""``make install`` and ``make uninstall``: the tree below a prefix, whole or not at all.

The package and its data go to PREFIX/lib/hugealign, prepared beside it and exchanged in one step; then each launcher,
manual page and completion takes its place by a rename.  PREFIX/lib/hugealign/installed lists them, for the next
installation and for ``uninstall``.  DESTDIR stands before PREFIX, for packagers.  Nothing is fetched or compiled but
Python's bytecode, which is the same bytes each time.  Needs the standard library alone.
"""

import argparse
import compileall
import contextlib
import ctypes
import errno
import fcntl
import os
import py_compile
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PRIVATE = ("hugealign", "ld-scripts", "cmake", "lld-plugin")  # below lib/hugealign
PUBLIC = ("bin", "share")  # below the prefix
TREE, LIST = "lib/hugealign", "lib/hugealign/installed"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.EXDEV, errno.EOPNOTSUPP)


class InstallError(Exception):
    """What is said in one line."""


def sources(top: str) -> Iterator[str]:
    """Yield the files below ROOT/*top*, relative to ROOT, in order; not what Python and editors leave behind."""
    for directory, names, files in os.walk(os.path.join(ROOT, top)):
        names[:] = sorted(name for name in names if name != "__pycache__" and not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and not name.endswith((".pyc", "~")):
                yield os.path.relpath(os.path.join(directory, name), ROOT)


def absolute(prefix: str) -> str:
    """Return *prefix*, normalised.  Raises InstallError if it is not an absolute path."""
    if not os.path.isabs(prefix):
        raise InstallError(f"PREFIX: {prefix!r} is not an absolute path")
    return os.path.normpath(prefix)


def put(source: str, target: str) -> None:
    """Copy a file under its final name in one step."""
    temporary = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.new")
    if os.path.islink(source):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        os.symlink(os.readlink(source), temporary)
        os.rename(temporary, target)
        return
    shutil.copyfile(source, temporary)
    os.chmod(temporary, 0o755 if os.access(source, os.X_OK) else 0o644)
    seen = os.stat(source)
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    time = min(seen.st_mtime_ns, int(epoch) * 10**9) if epoch else seen.st_mtime_ns
    os.utime(temporary, ns=(time, time))
    os.rename(temporary, target)


def directories(path: str, made: list[str]) -> None:
    """Make the directory *path* and those above it; those that were not there go to *made*, outermost first."""
    if not os.path.isdir(path):
        directories(os.path.dirname(path), made)
        os.mkdir(path)
        made.append(path)


def exchange(new: str, old: str) -> None:
    """Put the directory *new* in the place of *old*, in one step where the file system can; then *new* is it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "renameat2"):
        if not libc.renameat2(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(old), _RENAME_EXCHANGE):
            return
        number = ctypes.get_errno()
        if number not in _NO_EXCHANGE:
            raise OSError(number, os.strerror(number), old)
    aside = f"{new}.old"  # NFS, for one
    os.rename(old, aside)
    os.rename(new, old)
    os.rename(aside, new)


def installed(prefix: str) -> tuple[list[str], list[str]]:
    """Return the files outside of the tree that an installation has, and the directories that it made.

    Raises InstallError for a list that leads out of the prefix.
    """
    try:
        with open(os.path.join(prefix, LIST), encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return [], []
    files = [line for line in lines if line and not line.endswith("/")]
    for line in files:
        if line.startswith("/") or ".." in line.split("/"):
            raise InstallError(f"{os.path.join(prefix, LIST)}: {line!r} is not below {prefix}")
    return files, [line.rstrip("/") for line in lines if line.endswith("/")]


@contextlib.contextmanager
def alone(directory: str) -> Iterator[None]:
    """Wait until nobody else installs below *directory*."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def install(destdir: str, prefix: str, bytecode: bool) -> None:
    """Install below *destdir* + *prefix*, over an older installation if there is one."""
    target = destdir + prefix
    made: list[str] = []
    directories(os.path.join(target, "lib"), made)
    with alone(os.path.join(target, "lib")):
        tree, new = os.path.join(target, TREE), os.path.join(target, "lib/.hugealign.new")
        for left in (new, f"{new}.old"):  # by an installation that was interrupted
            if os.path.isdir(left) and not (left.endswith(".old") and not os.path.isdir(tree)):
                shutil.rmtree(left)
        if not os.path.isdir(tree) and os.path.isdir(f"{new}.old"):
            os.rename(f"{new}.old", tree)
        old_files, old_made = installed(target)
        directories(new, [])
        for top in PRIVATE:
            for name in sources(top):
                directories(os.path.dirname(os.path.join(new, name)), [])
                put(os.path.join(ROOT, name), os.path.join(new, name))
        if bytecode:
            done = compileall.compile_dir(
                os.path.join(new, "hugealign"),
                quiet=1,
                stripdir=new,
                prependdir=os.path.join(prefix, TREE),
                # Neither times nor umask go into it, and no file is read twice at each start.
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )
            if not done:
                raise InstallError("Python cannot compile the package")
        public = [name for top in PUBLIC for name in sources(top)]
        for name in public:
            directories(os.path.dirname(os.path.join(target, name)), made)
        kept = list(dict.fromkeys([*old_made, *(os.path.relpath(path, target) for path in made)]))
        write_list(new, dict.fromkeys((*public, *old_files)), kept)  # also the old ones, as long as they are there
        if os.path.isdir(tree):
            exchange(new, tree)
            shutil.rmtree(new)
        else:
            os.rename(new, tree)
        for name in public:
            put(os.path.join(ROOT, name), os.path.join(target, name))
        for name in sorted(set(old_files) - set(public)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(target, name))
        write_list(tree, public, kept)


def write_list(tree: str, files: Iterable[str], made: list[str]) -> None:
    """Write down in one step what `installed` returns."""
    path = os.path.join(tree, "installed")
    text = "".join(f"{line}\n" for line in (*files, *(f"{path}/" for path in made)))
    with open(f"{path}.new", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    os.rename(f"{path}.new", path)


def uninstall(destdir: str, prefix: str) -> None:
    """Remove what ``install`` put below *destdir* + *prefix*, and the directories that it made, if they are empty."""
    target = destdir + prefix
    if not os.path.isfile(os.path.join(target, LIST)):
        raise InstallError(f"{target}: nothing of `make install` is here; give its PREFIX and DESTDIR")
    with alone(os.path.join(target, "lib")):
        files, made = installed(target)
        for name in files:
            directory, base = os.path.split(os.path.join(target, name))
            for each in (base, f".{base}.new"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(directory, each))
        gone = os.path.join(target, "lib/.hugealign.new")
        if os.path.isdir(gone):
            shutil.rmtree(gone)
        os.rename(os.path.join(target, TREE), gone)
        shutil.rmtree(gone)
        for path in reversed(made):
            with contextlib.suppress(OSError):  # others have files there
                os.rmdir(os.path.normpath(os.path.join(target, path)))


def main() -> int:
    """Read PREFIX and DESTDIR from the environment, where no shell looks into them, and do it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("install", "uninstall"))
    parser.add_argument("--no-bytecode", action="store_true", help="leave compiling to the package manager")
    args = parser.parse_args()
    prefix, destdir = os.environ.get("PREFIX", "/usr/local"), os.environ.get("DESTDIR", "")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as whole at any moment, and says nothing
    os.umask(0o022)  # what is installed is for everybody
    try:
        prefix = absolute(prefix)
        destdir = os.path.abspath(destdir) if destdir else ""
        if args.what == "install":
            install(destdir, prefix, not args.no_bytecode)
        else:
            uninstall(destdir, prefix)
    except InstallError as error:
        print(f"{args.what}: {error}", file=sys.stderr)
        return 1
    except (OSError, ValueError) as error:
        where = getattr(error, "filename", None)
        print(f"{args.what}: {f'{where}: ' if where else ''}{getattr(error, 'strerror', error)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
