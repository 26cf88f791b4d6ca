"""Recognise files that are checked against a digest or a signature, which a fixed file would not match.

A library can check itself when a program loads it (NSS's ``.chk``, the ``.hmac`` of FIPS modules), the kernel can (IMA,
EVM, fs-verity), and so can a program that updates or copies files.  The digest or signature is in the file or its
attributes, or lies beside it: under a name made of the file's, or in a list.
"""

import functools
import os
import re

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.dynamic import read_dynamic
from hugealign.elf.image import Image
from hugealign.errors import HugealignError
from hugealign.io.copying import attributes, sealed
from hugealign.io.regular import opened
from hugealign.io.units import printable

#: Attributes of the kernel's integrity subsystem (security/integrity/integrity.h).
_ATTRIBUTES = ("security.ima", "security.evm")
#: Sections with a digest of the file: libgcrypt's note; and an HMAC alone in Red Hat's libgcrypt and OpenSSL.
_NOTE, _HMAC, _HMAC_SIZE = ".note.fdo.integrity", ".rodata1", 32
_APPENDED = b"~Module signature appended~\n"  # include/linux/module_signature.h
#: How names of digests and signatures end: NAME.sha256, .NAME.hmac, and NSS's NAME.chk, there without ".so".
_ENDING = re.compile(
    r"\.(?:chk|hmac|(?:sha|sm|b|blake|rmd|ripemd|xxh)-?\d+[a-z]*|md5(?:sums?)?|digest|checksums?|cksum|crc(?:32)?"
    r"|sums?|sign?|signature|asc|gpg|pgp|p7[bms]|minisig|cosign|sigstore)(?:\.(?:txt|jsonl?|asc|sig))?\Z",
    re.IGNORECASE,
)
#: Names of lists: SHA256SUMS, SHASUMS256.txt, checksums.txt and the like; GnuTLS has one for all its libraries.  Files
#: with the name of a digest may also be lists.
_LIST = re.compile(
    r"(?:(?:sha|md|b|blake)-?(?:\d*[-_]?sums?\d*|\d+)|check-?sums?|digests?|hash(?:es)?)(?:\.txt)?\Z|\..*\.hmac\Z",
    re.IGNORECASE,
)
#: Their entries: a digest and a name, a name in parentheses and a digest (BSD), or a name in brackets (GnuTLS).
_ENTRY = re.compile(
    rb"^[0-9A-Fa-f]{32,}[ \t]+\*?(?:\./)?([^\n]+)$|\((?:\./)?([^()\n]+)\) ?= ?[0-9A-Fa-f]{32}|^\[([^]\n]+)\]$",
    re.MULTILINE,
)
#: Where fipscheck and hmaccalc keep digests.
_DIRECTORIES = [f"{top}/{name}" for top in ("/usr/lib", "/usr/lib64") for name in ("fipscheck", "hmaccalc")]
_STRONGSWAN = "libchecksum.so"  # has the digests of all plugins and programs, in their directory or above
#: OpenSSL's module for FIPS, whose digest is in the configuration that its administrator made (fips_config(5)).
_OPENSSL, _CONFIGURATION = ("ossl-modules", "fips.so"), "fipsmodule.cnf"
_VERSION = re.compile(r"\.\d+\Z")
_LISTS_LIMIT, _LIST_LIMIT = 64, 1 << 18  # lists of a directory, and bytes of a list


def refuse_checked(fd: int, image: Image) -> None:
    """Raise RefusalError if something checks the file behind *fd*, whose headers are *image*.  Raises OSError."""
    if sealed(fd):
        raise RefusalError("fix.checked", protection="fs-verity")
    if attribute := next((name for name in attributes(fd) if name in _ATTRIBUTES), ""):
        raise RefusalError("fix.checked", attribute=attribute)
    for section in image.sections:
        if section.name == _NOTE or (section.name == _HMAC and section.sh_size == _HMAC_SIZE):
            raise RefusalError("fix.checked", section=section.name)
    if os.pread(fd, len(_APPENDED), max(0, os.fstat(fd).st_size - len(_APPENDED))) == _APPENDED:
        raise RefusalError("fix.checked", protection="module signature")
    try:
        path = os.readlink(f"/proc/self/fd/{fd}")
        here = os.path.samestat(os.stat(path), os.fstat(fd))
    except OSError:  # its name has been removed
        return
    if here and (found := _found(path, read_dynamic(fd, image).soname)):
        raise RefusalError("fix.checked", file=printable(found))


def _found(path: str, soname: str) -> str:
    """Return the path of what the file at the real *path* is checked against; empty without one."""
    directory, name = os.path.split(path)
    if (os.path.basename(directory), name) == _OPENSSL:
        return _CONFIGURATION
    for place in (directory, os.path.dirname(directory)):
        if name != _STRONGSWAN and os.path.exists(list_of_all := os.path.join(place, _STRONGSWAN)):
            return list_of_all
    names = {name, soname} - {""}
    while shorter := _VERSION.sub("", name).removesuffix(name):  # a library also has shorter names that lead to it
        names.add(name := shorter)
    names |= {f"{name.removesuffix('.so')}.chk" for name in names}
    for place in (directory, *_DIRECTORIES):
        digests, _ = _in_directory(place, _changed(place))
        for known in names & digests.keys():
            return os.path.join(place, digests[known])
    for place, below in ((directory, ""), (os.path.dirname(directory), f"{os.path.basename(directory)}/")):
        _, listed = _in_directory(place, _changed(place))
        for known in {below + name for name in names} & listed.keys():
            return os.path.join(place, listed[known])
    return ""


def _changed(directory: str) -> int:
    try:
        return os.stat(directory).st_mtime_ns
    except OSError:
        return 0


@functools.lru_cache(maxsize=64)
def _in_directory(directory: str, changed: int) -> tuple[dict[str, str], dict[str, str]]:
    """Return the names of digests in *directory* by what they are of, and the names of lists by what they list.

    *changed* is when names in it changed last, 0 if it cannot be read.
    """
    try:
        names = os.listdir(directory) if changed else []
    except OSError:
        names = []
    # Of NSS, the name of the digest itself is known.
    digests = {of: name for name in names if (end := _ENDING.sub("", name)) != name for of in (end.lstrip("."), name)}
    listed = {}
    lists = [*sorted(filter(_LIST.match, names)), *sorted(filter(_ENDING.search, names))]
    for name in lists[:_LISTS_LIMIT]:
        for entry in _ENTRY.finditer(_text(os.path.join(directory, name))):
            listed[os.fsdecode(entry[entry.lastindex or 0].strip())] = name
    return digests, listed


def _text(path: str) -> bytes:
    try:
        with opened(path) as fd:
            data = os.pread(fd, _LIST_LIMIT, 0)
            return data if b"\0" not in data else b""  # a program such as sha256sum
    except HugealignError:
        return b""
