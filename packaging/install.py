"""``make install`` and ``make uninstall``: the tree below a prefix, prepared beside its place and then renamed.

The package and its data go to PREFIX/lib/hugealign; then each launcher, manual page and completion takes its place by a
rename.  PREFIX/lib/hugealign/installed lists them, for the next installation and for ``uninstall``.  DESTDIR stands
before PREFIX, for packagers.  Nothing is fetched or compiled but Python's bytecode, which is the same bytes each time.
Needs the standard library alone.
"""

import argparse
import compileall
import os
import py_compile
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PRIVATE = ("hugealign", "ld-scripts", "cmake", "lld-plugin")  # below lib/hugealign
PUBLIC = ("bin", "share")  # below the prefix
TREE, NEW, OLD, LIST = "lib/hugealign", "lib/.hugealign.new", "lib/.hugealign.old", "lib/hugealign/installed"


def sources(tops: tuple[str, ...]) -> Iterator[str]:
    """Yield the files below *tops*, relative to ROOT, in order; not what Python and editors leave behind."""
    for top in tops:
        for directory, names, files in os.walk(os.path.join(ROOT, top)):
            names[:] = sorted(name for name in names if name != "__pycache__" and not name.startswith("."))
            for name in sorted(files):
                if not name.startswith(".") and not name.endswith((".pyc", "~")):
                    yield os.path.relpath(os.path.join(directory, name), ROOT)


def put(name: str, place: str, made: list[str]) -> None:
    """Copy the file *name* below ROOT to the same name below *place*, in one step."""
    source, target = os.path.join(ROOT, name), os.path.join(place, name)
    directories(os.path.dirname(target), made)
    temporary = f"{target}.new"
    with suppress(FileNotFoundError):
        os.unlink(temporary)
    shutil.copy2(source, temporary, follow_symlinks=False)
    if not os.path.islink(source):
        os.chmod(temporary, 0o755 if os.access(source, os.X_OK) else 0o644)
    os.rename(temporary, target)


def directories(path: str, made: list[str]) -> None:
    """Make the directory *path* and those above it; those that were not there go to *made*, outermost first."""
    if not os.path.isdir(path):
        directories(os.path.dirname(path), made)
        os.mkdir(path)
        made.append(path)


def installed(target: str) -> tuple[list[str], list[str]]:
    """Return the files outside of the tree that an installation has, and the directories that it made.

    Raises ValueError for a list that leads out of *target*.
    """
    path = os.path.join(target, LIST)
    if not os.path.isfile(path):
        return [], []
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        lines = file.read().splitlines()
    for line in lines:
        if line.startswith("/") or (".." in line.split("/") and not line.endswith("/")):
            raise ValueError(f"{path}: {line!r} is not below {target}")
    return [line for line in lines if not line.endswith("/")], [line for line in lines if line.endswith("/")]


def install(target: str, prefix: str, bytecode: bool) -> None:
    """Install below *target*, which is to be found at *prefix*, over an older installation if there is one."""
    tree, new, old = (os.path.join(target, name) for name in (TREE, NEW, OLD))
    made: list[str] = []
    directories(os.path.join(target, "lib"), made)
    if os.path.isdir(old) and not os.path.isdir(tree):  # an installation was interrupted between two renames
        os.rename(old, tree)
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)
    old_files, old_made = installed(target)
    for name in sources(PRIVATE):
        put(name, new, [])
    if bytecode and not compileall.compile_dir(
        os.path.join(new, "hugealign"),
        quiet=1,
        stripdir=new,
        prependdir=os.path.join(prefix, TREE),
        # Neither times nor umask go into it, and no file is read twice at each start.
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    ):
        raise ValueError("Python cannot compile the package")
    public = list(sources(PUBLIC))
    for name in public:
        directories(os.path.dirname(os.path.join(target, name)), made)
    stale = [name for name in old_files if name not in public and os.path.lexists(os.path.join(target, name))]
    kept = dict.fromkeys((*old_made, *(f"{os.path.relpath(path, target)}/" for path in made)))
    with open(os.path.join(new, "installed"), "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(f"{line}\n" for line in (*public, *stale, *kept))
    if os.path.isdir(tree):
        os.rename(tree, old)
    os.rename(new, tree)
    shutil.rmtree(old, ignore_errors=True)
    for name in public:
        put(name, target, made)
    for name in stale:
        os.unlink(os.path.join(target, name))


def uninstall(target: str) -> None:
    """Remove what ``install`` put below *target*, and the directories that it made, if they are empty."""
    if not os.path.isfile(os.path.join(target, LIST)):
        raise ValueError(f"{target}: nothing of `make install` is here; give its PREFIX and DESTDIR")
    files, made = installed(target)
    for name in files:
        for path in (name, f"{name}.new"):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(target, path))
    for name in (NEW, OLD, TREE):
        shutil.rmtree(os.path.join(target, name), ignore_errors=True)
    for path in reversed(made):
        with suppress(OSError):  # others have files there
            os.rmdir(os.path.normpath(os.path.join(target, path)))


def places() -> tuple[str, str]:
    """Return where to put files, and their prefix afterwards.  Raises ValueError."""
    prefix, destdir = os.environ.get("PREFIX", "/usr/local"), os.environ.get("DESTDIR", "")
    if not os.path.isabs(prefix):
        raise ValueError(f"PREFIX: {prefix!r} is not an absolute path")
    prefix = os.path.normpath(prefix)
    return (os.path.abspath(destdir) if destdir else "") + prefix, prefix


def main() -> int:
    """Read PREFIX and DESTDIR from the environment, where no shell looks into them, and do it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("install", "uninstall"))
    parser.add_argument("--no-bytecode", action="store_true", help="leave compiling to the package manager")
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # says nothing
    os.umask(0o022)  # what is installed is for all users
    try:
        target, prefix = places()
        if args.what == "install":
            install(target, prefix, not args.no_bytecode)
        else:
            uninstall(target)
    except OSError as error:
        print(f"{args.what}: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"{args.what}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
