"""The list of a wheel's files, RECORD, which tells each file's hash and size: it follows a file that changes.

The Binary Distribution Format and "Recording installed projects" (packaging.python.org) define it: a CSV file in
``NAME-VERSION.dist-info``, with paths relative to the directory above that.
"""

import errno
import os
from collections.abc import Iterator

from hugealign.diagnosis.values import Diagnosis
from hugealign.errors import HugealignError
from hugealign.io import replacing
from hugealign.io.regular import opened

_SITES = ("site-packages", "dist-packages")
_LARGEST = 64 << 20  # bytes of a RECORD
_SUFFIX = ".dist-info"
_COLUMNS = 3  # path, hash, size; RECORD itself has no hash


def record(path: str) -> tuple[Diagnosis, ...]:
    """Put hash and size of the file at *path* into each RECORD that lists it.

    Return why one could not be written.
    """
    failures = []
    name = os.path.join(os.path.realpath(os.path.dirname(path) or "."), os.path.basename(path))
    for site in _sites(name):
        listed = os.path.relpath(name, site)
        for place in _lists(site):
            try:
                _update(place, listed, name)
            except (OSError, HugealignError) as error:
                number = error.errno if isinstance(error, OSError) else None
                facts = {"record": place, "error": errno.errorcode.get(number or 0, "")}
                failures.append(Diagnosis("file.not-recorded", path, facts))
    return tuple(failures)


def _sites(path: str) -> Iterator[str]:
    """Yield the directories of wheels that may have brought the file at *path*."""
    above = os.path.dirname(path)
    prefix = os.path.dirname(above)  # of a program in PREFIX/bin
    for lib in (f"{prefix}/lib", f"{prefix}/lib64") if os.path.basename(above) in ("bin", "lib") else ():
        if os.path.isdir(lib):
            yield from (f"{lib}/{name}/site-packages" for name in os.listdir(lib) if name.startswith("python3"))
    while above != os.path.dirname(above):
        if os.path.basename(above) in _SITES:
            yield above
        above = os.path.dirname(above)


def _lists(site: str) -> Iterator[str]:
    if os.path.isdir(site):
        for name in sorted(os.listdir(site)):
            place = os.path.join(site, name, "RECORD")
            # Not behind a link, which would lead to what is not of this environment.
            if name.endswith(_SUFFIX) and os.path.isfile(place) and os.path.realpath(place) == place:
                yield place


def _update(place: str, listed: str, path: str) -> None:
    """Change the line of the file *listed* in the RECORD at *place* to the file at *path*.

    Raises OSError, HugealignError.
    """
    with opened(place, empty=True) as fd:
        data = os.pread(fd, _LARGEST + 1, 0)
    if os.fsencode(listed) not in data:
        return
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
    with opened(path) as fd, open(fd, "rb", closefd=False) as file:
        size = os.fstat(fd).st_size
        digest = base64.urlsafe_b64encode(hashlib.file_digest(file, "sha256").digest()).rstrip(b"=").decode()
    wanted = [f"sha256={digest}", str(size)]
    stale = [row for row in rows if len(row) == _COLUMNS and row[1] and os.path.normpath(row[0]) == listed]
    if all(row[1:] == wanted for row in stale):
        return
    for row in stale:
        row[1:] = wanted
    end = "\r\n" if "\r\n" in text else "\n"
    made = io.StringIO(newline="")
    csv.writer(made, lineterminator=end).writerows(rows)
    replacing.write(place, made.getvalue().encode("utf-8", "surrogateescape"))
