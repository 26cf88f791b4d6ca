"""The list of a wheel's files, RECORD, which tells each file's hash and size: it follows a file that changes.

The Binary Distribution Format and "Recording installed projects" (packaging.python.org) define it: a CSV file in
``NAME-VERSION.dist-info``, with paths relative to the directory above that.
"""

import contextlib
import os
import stat
from collections.abc import Iterator

from hugealign.diagnosis.refusal import error_name
from hugealign.diagnosis.values import Diagnosis
from hugealign.errors import HugealignError
from hugealign.io import replacing
from hugealign.io.descriptors import reopened, using, write_all
from hugealign.io.places import Directory, Place
from hugealign.io.regular import opened

_SITES = ("site-packages", "dist-packages")
_LARGEST = 64 << 20  # bytes of a RECORD
_SUFFIX = ".dist-info"
_COLUMNS = 3  # path, hash, size; RECORD itself has no hash


def record(file: Place, made: int) -> tuple[Diagnosis, ...]:
    """Put hash and size of *file*, open as *made*, into each RECORD that lists it.

    Return why one could not be written.
    """
    failures = []
    with contextlib.suppress(OSError, ValueError), using(file.directory()) as directory:
        for site, name in _sites(directory, os.path.basename(file.name)):
            for place in _lists(site):
                try:
                    _update(place, name, made)
                except (OSError, HugealignError) as error:
                    facts = {"record": place.path, "error": error_name(error)}
                    failures.append(Diagnosis("file.not-recorded", file.path, facts))
    return tuple(failures)


def _sites(directory: int, name: str) -> Iterator[tuple[Directory, str]]:
    """Yield the directories of wheels that may have brought the file *name* in the open *directory*.

    With each comes the path by which its RECORD lists the file.  The directories above are those that the kernel says
    (``..``), not those of a path.
    """
    at = Directory(_path(directory))
    above = Directory("..", at)
    if (last := _name(at)) in ("bin", "lib"):  # of a program in PREFIX/bin
        for lib in ("lib", "lib64"):
            with contextlib.suppress(OSError):
                below = Directory(lib, above)
                for python in os.listdir(_path(below.fd)):
                    yield from ((site, f"../../../{last}/{name}") for site in _site_of(below, python))
    while not os.path.samestat(os.fstat(at.fd), os.fstat(above.fd)):
        if _name(at) in _SITES:
            yield at, name
        name = os.path.join(_name(at), name)
        at, above = above, Directory("..", above)


def _site_of(lib: Directory, python: str) -> Iterator[Directory]:
    if python.startswith("python3"):
        with contextlib.suppress(OSError):
            yield Directory("site-packages", Directory(python, lib))


def _path(directory: int) -> str:
    return f"/proc/self/fd/{directory}"


def _name(directory: Directory) -> str:
    return os.path.basename(os.readlink(_path(directory.fd)))


def _lists(site: Directory) -> Iterator[Place]:
    path = os.readlink(_path(site.fd))
    for name in sorted(os.listdir(_path(site.fd))):
        if name.endswith(_SUFFIX):
            yield Place(site, f"{name}/RECORD", f"{path}/{name}/RECORD")


def _update(place: Place, listed: str, made: int) -> None:
    """Change the line of the file *listed* in the RECORD at *place* to the open file *made*.

    A RECORD behind a link would be another environment's.  Raises OSError, HugealignError.
    """
    try:
        if not stat.S_ISREG(place.status().st_mode):
            return
    except (FileNotFoundError, NotADirectoryError):
        return

    def fill(source: int, new: int, _: int) -> None:
        write_all(new, _changed(source, listed, made))

    with opened(place, empty=True) as fd:
        stale = _changed(fd, listed, made)
    if stale:
        replacing.replace(place, lambda _: True, fill, one_name=True)


def _changed(record: int, listed: str, made: int) -> bytes:
    """Return the open *record* with hash and size of *made* for the file *listed*; nothing if it need not change."""
    data = os.pread(record, _LARGEST + 1, 0)
    if os.fsencode(listed) not in data:
        return b""
    if len(data) > _LARGEST:
        raise HugealignError("it is too large")
    import base64
    import csv
    import hashlib
    import io

    text = data.decode("utf-8", "surrogateescape")
    try:
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise HugealignError(str(error)) from error
    with using(reopened(made)) as fd, open(fd, "rb", closefd=False) as file:
        size = os.fstat(fd).st_size
        digest = base64.urlsafe_b64encode(hashlib.file_digest(file, "sha256").digest()).rstrip(b"=").decode()
    wanted = [f"sha256={digest}", str(size)]
    stale = [row for row in rows if len(row) == _COLUMNS and row[1] and os.path.normpath(row[0]) == listed]
    if all(row[1:] == wanted for row in stale):
        return b""
    for row in stale:
        row[1:] = wanted
    end = "\r\n" if "\r\n" in text else "\n"
    result = io.StringIO(newline="")
    csv.writer(result, lineterminator=end).writerows(rows)
    return result.getvalue().encode("utf-8", "surrogateescape")
