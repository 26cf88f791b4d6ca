"""Copies of programs in memory that have no path, for processes that may not mount: memfd_create(2)."""

import os
from contextlib import suppress

from hugealign.environment import as_given
from hugealign.errors import HugealignError
from hugealign.io import resources
from hugealign.io.descriptors import using
from hugealign.io.regular import contains
from hugealign.run import copies
from hugealign.run.tunable import loader_of

#: memfd_create: executable, even if vm.memfd_noexec is 1 (Linux 6.3; EINVAL before).
_MFD_CLOEXEC, _MFD_EXEC = 1, 0x10
#: What a program contains that looks up where it lies, and one whose libraries are found from there (ld.so(8)).
_OWN_PATH = tuple(b"/proc/%s/exe" % pid for pid in (b"self", b"%d", b"%i", b"%u", b"%ld", b"%lu"))
_OWN_DIRECTORY = (b"$ORIGIN", b"${ORIGIN}")
_OF_LOADER = (b"LD_LIBRARY_PATH", b"LD_PRELOAD", b"LD_AUDIT")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  # a directory of our own in it, whose owner is checked


def looks_for_itself(path: str) -> bool:
    """Return whether the program at *path*, its loader, or a library it is linked with may look up where it lies."""
    from hugealign.system.libraries import resolve

    environ = as_given()
    if any(word in environ.get(name, b"") for name in _OF_LOADER for word in _OWN_DIRECTORY):
        return True

    # The loader does so only for $ORIGIN in the program or in a variable.
    loader = os.path.realpath(loader_of(path))
    libraries = [file for file in resolve(path).paths if file != loader]
    return contains(path, (*_OWN_PATH, *_OWN_DIRECTORY)) or any(contains(file, _OWN_PATH) for file in libraries)


def path(copy: int, name: str) -> str:
    """Return a path of the open *copy* in memory, if possible one that ends in *name*, the process's name then (comm).

    The link stays, since nothing of us is left to remove it.  It leads to a descriptor of the process that follows it,
    so one link serves all.
    """
    file = f"/proc/self/fd/{copy}"
    with suppress(OSError, HugealignError):
        place = f"{_SHARED_MEMORY}/hugealign-{os.geteuid()}/{copy}"
        with using(resources.made(place, _SHARED_MEMORY)) as directory, suppress(FileExistsError):
            os.symlink(file, name, dir_fd=directory)
        if os.path.samestat(os.stat(f"{place}/{name}"), os.fstat(copy)):
            return f"{place}/{name}"
    return file


def make(origin: copies.StagedFile) -> int:
    """Return a copy of *origin* that is open for reading.  Raises RefusalError."""
    try:
        with using(_memory_file(os.path.basename(origin.path))) as target:
            copies.write(origin, target)
            os.fchmod(target, 0o500)
            # The command does not get the descriptor: the kernel opens the file before closing it.
            return os.open(f"/proc/self/fd/{target}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise copies.uncopied(error) from error


def _memory_file(name: str) -> int:
    try:
        return os.memfd_create(name[:200], _MFD_CLOEXEC | _MFD_EXEC)
    except OSError:
        return os.memfd_create(name[:200], _MFD_CLOEXEC)
