"""Archives of every kind, made by a grammar that knows their fields: now and then a number, a name or a reference lies.

Most of an archive is right, so that a lie is found behind what is right; then, in a part of them, bytes are wounded as
well.  What a member holds may be an archive again.
"""

import bz2
import gzip
import json
import lzma
import random
import struct
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

Chance = random.Random
Make = Callable[[Chance], bytes]

_ODD_NUMBERS = (
    b"-1", b"+1", b"1_0", b" 1", b"1 ", b"", b"0x1", b"\xff", b"9" * 40, b"7777777", b"ffffffff", b"-0000001", b"1e3",
    b"\0", b"0", b"1", b"80000000", b"7fffffff", b"9223372036854775807", b"9223372036854775808", b"\xd9\xa3", b"4096",
)  # fmt: skip
_BINARY = (0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0xFFFF, 1 << 16, 0x7FFFFFFF, 1 << 31, 0xFFFFFFFF, (1 << 63) - 1, 1 << 63)
_NAMES = (
    b"prog", b"usr/bin/prog", b"./lib/x.so", b"../../etc/passwd", b"/dev/null", b"", b"a" * 90, b"\x1b[31m\n", b"-x",
    b"debian-binary", b"data.tar.xz", b"index.json", b"manifest.json", b"::error::x", b"\xff\xfe", b"x\0y", b"//", b"/",
)  # fmt: skip


@cache
def programs() -> tuple[bytes, ...]:
    """A real program, the front of one, and headers by hand: a library without segments, an object, a core file."""
    true = Path("/bin/true").read_bytes()
    bare = [
        b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HHI", kind, 62, 1) + bytes(40) for kind in (1, 2, 3, 4)
    ]
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    loads = head + struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 400, 1 << 22, 1 << 21) + b"\xc3" * 300
    return (true, true[:5000], loads, *bare)


def content(chance: Chance, depth: int) -> bytes:
    """Return what a member holds."""
    what = chance.randrange(12)
    if what < 4:
        return wounded(chance, chance.choice(programs()[1:]), 0.2)
    if what == 4 and chance.random() < 0.2:
        return programs()[0]
    if what < 8 and depth > 0:
        return chance.choice(_NESTED)(chance, depth - 1)
    if what == 8:
        return documents(chance)
    if what == 9:
        return bytes(chance.choice((1, 511, 512, 5000, 1 << 17)))
    return chance.choice((b"", b"x", b"#!/bin/sh\n" * 60, b"\x1f\x8b\x08", b"BZh91AY&SY", b"\xfd7zXZ\0", b"PK\5\6"))


def members(chance: Chance, depth: int) -> list[tuple[bytes, bytes]]:
    """Return names and contents."""
    some = [(chance.choice(_NAMES), content(chance, depth)) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
    return some * chance.choice((1, 1, 1, 1, 2, 20)) if sum(len(data) for _, data in some) < 5000 else some


def lies(chance: Chance, rate: float = 0.02) -> bool:
    """Whether the next field lies."""
    return chance.random() < rate


def field(chance: Chance, number: bytes, width: int, pad: bytes = b" ") -> bytes:
    """Return the digits *number*, or others, in a field of *width*."""
    if lies(chance):
        number = chance.choice(_ODD_NUMBERS)
    return number.ljust(width, pad)[:width] if chance.random() < 0.9 else number.rjust(width, b"0")[:width]


def binary(chance: Chance, number: int, bits: int) -> int:
    """Return *number*, or another one that fits."""
    return chance.choice(_BINARY) & ((1 << bits) - 1) if lies(chance) else number


def wounded(chance: Chance, data: bytes, rate: float) -> bytes:
    """Return *data*, with one to four wounds in *rate* of all cases; half of them near the front."""
    if chance.random() > rate or not data:
        return data
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        size = len(out)
        at = chance.randrange(min(size, chance.choice((64, 1024, size, size))) or 1)
        what = chance.randrange(6)
        if what == 0 and at < size:
            out[at] ^= 1 << chance.randrange(8)
        elif what == 1:
            width = chance.choice((1, 2, 4, 8))
            out[at : at + width] = (chance.choice(_BINARY) & ((1 << 8 * width) - 1)).to_bytes(
                width, chance.choice(("little", "big"))
            )
        elif what == 2:
            del out[at : at + chance.choice((1, 2, 4, 60, 512, 5000))]
        elif what == 3:
            out[at:at] = out[at : at + chance.choice((1, 4, 60, 512))] * chance.choice((1, 2, 50))
        elif what == 4:
            odd = chance.choice(_ODD_NUMBERS)
            out[at : at + len(odd)] = odd
        else:
            del out[at:]
    return bytes(out)


# -- ar


def ar(chance: Chance, depth: int, thin: bool = False, files: list[tuple[bytes, bytes]] | None = None) -> bytes:
    """Return an archive of ar(1)."""
    out = b"!<thin>\n" if thin else b"!<arch>\n"
    table = b"".join(b"%s/\n" % name for name, _ in files or [(b"long" * 9, b"")]) * chance.choice((1, 1, 30))
    parts = [(b"/", bytes(8)), (b"//", table)] if chance.random() < 0.5 else []
    for name, data in parts + (members(chance, depth) if files is None else files):
        style = chance.randrange(5) if name not in (b"/", b"//") and files is None else 9
        stored, label = data, name
        if style == 0:
            label = b"/" + field(chance, b"%d" % chance.choice((0, 4, len(table), 9999)), 6).rstrip(b" ")
        elif style == 1:
            stored = name + data
            label = b"#1/" + field(chance, b"%d" % len(name), 8).rstrip(b" ")
        elif style == 2:
            label = name[:15] + b"/"
        size = field(chance, b"%d" % len(stored), 10)
        end = b"`\n" if not lies(chance, 0.01) else b"xx"
        out += label[:16].ljust(16) + b"0".ljust(12) + b"0".ljust(12) + b"644".ljust(8) + size + end
        if not thin or name in (b"/", b"//"):
            out += stored + b"\n" * (len(stored) & 1)
    return out


def deb(chance: Chance, depth: int) -> bytes:
    """Return a Debian package."""
    files = [(b"debian-binary", b"2.0\n"), (b"control.tar.gz", gzip.compress(tar(chance, 0), 1))]
    inner = tar(chance, depth)
    data = packed(chance, inner)
    files += [(b"data.tar.xz", data)] * chance.choice((1, 1, 1, 0, 2, 5))
    return ar(chance, depth, files=files)


# -- cpio, rpm


def cpio(chance: Chance, depth: int) -> bytes:
    """Return an archive of cpio(1)."""
    out = b""
    for name, data in [*members(chance, depth), (b"TRAILER!!!", b"")]:
        mode = chance.choice((0o100755, 0o100755, 0o100755, 0o120777, 0o40755))
        fields = [1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        head = chance.choice((b"070701", b"070702")) + b"".join(field(chance, b"%08x" % n, 8) for n in fields)
        front = head + name + b"\0"
        out += front + bytes(-len(front) % 4) + data + bytes(-len(data) % 4)
    following = chance.choice((b"", b"", b"", out, packed(chance, out), b"rest"))
    return out + bytes(chance.choice((0, 0, 2, 9000))) + following


def rpm(chance: Chance, depth: int) -> bytes:
    """Return a package of rpm(8), with names in its payload or in its header."""
    files = members(chance, depth)
    count = binary(chance, len(files), 21)
    payload = cpio(chance, depth)
    if chance.random() < 0.5:
        payload = b""
        for at, (_, data) in enumerate(files):
            payload += b"07070X%08x\0\0" % binary(chance, at, 32) + data + bytes(-len(data) % 4)
        payload += b"070701" + b"00000000" * 11 + b"0000000b" + b"00000000" + b"TRAILER!!!\0"
    n = len(files)
    tables = {
        1116: struct.pack(f">{n}I", *[0] * n), 1118: b"/usr/\0", 1117: b"".join(name + b"\0" for name, _ in files),
        1030: struct.pack(f">{n}H", *[0o100755] * n), 5008: struct.pack(f">{n}Q", *[len(data) for _, data in files]),
        1095: struct.pack(f">{n}I", *[1] * n), 1096: struct.pack(f">{n}I", *range(n)),
    }  # fmt: skip
    store, entries = b"", b""
    for tag, data in tables.items():
        entries += struct.pack(">IIII", tag, 4, binary(chance, len(store), 32), 1 if tag == 1118 else count)
        store += data
    header = struct.pack(">IIII", 0x8EADE801, 0, binary(chance, len(entries) // 16, 32), binary(chance, len(store), 32))
    lead = b"\xed\xab\xee\xdb".ljust(96, b"\0") + b"\x8e\xad\xe8\x01\0\0\0\0" + bytes(8)
    return lead + header + entries + store + packed(chance, payload)


# -- tar


_TAR_KINDS = (b"0",) * 12 + (b"\0", b"7", b"5", b"2", b"1", b"S", b"g", b"Z")


def tar_header(chance: Chance, name: bytes, size: int, kind: bytes, gnu: bool = False) -> bytes:
    """Return one block of a tar archive; its sum is right but for one in a hundred."""
    size_field = field(chance, b"%011o" % size, 12, b"\0")
    if lies(chance, 0.02):
        size_field = chance.choice((b"\x80", b"\xff")) + (chance.choice(_BINARY) << 24).to_bytes(11, "big")
    magic = b"ustar  \0" if gnu else b"ustar\x0000"
    block = name[:100].ljust(100, b"\0") + b"0000755\0" + b"0000000\0" * 2 + size_field + b"00000000000\0" + b" " * 8
    block += kind + bytes(100) + magic
    block = block.ljust(345, b"\0") + (b"in/front" if lies(chance) else b"")
    block = block.ljust(512, b"\0")
    return summed(block) if not lies(chance, 0.01) else block


def summed(block: bytes) -> bytes:
    """Return the tar header *block* with its checksum."""
    block = block[:148] + b" " * 8 + block[156:]
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def pax_records(chance: Chance, data: bytes) -> bytes:
    """Return the records of an extended header for a file of *data*."""
    keys = {
        b"size": b"%d" % len(data), b"path": chance.choice(_NAMES) * 3, b"mtime": b"1.5", b"GNU.sparse.major": b"1",
        b"GNU.sparse.minor": b"0", b"GNU.sparse.realsize": b"%d" % chance.choice((len(data), 1 << 20, 1 << 62)),
        b"GNU.sparse.name": b"x", b"GNU.sparse.size": b"9",
    }  # fmt: skip
    out = b""
    some = sorted(keys) if lies(chance, 0.3) else [b"mtime", b"path", b"size"]
    for key in chance.sample(some, chance.choice((1, 2, 3))) * chance.choice((1, 1, 1, 40)):
        value = chance.choice(_ODD_NUMBERS) if lies(chance) else keys[key]
        body = b" " + key + b"=" + value + b"\n"
        length = len(body) + len(str(len(body) + 2))
        out += field(chance, b"%d" % length, len(str(length))) + body
    return out


def sparse(chance: Chance, name: bytes, data: bytes) -> bytes:
    """Return a sparse member of pax form 1.0: a map in front of the data, its pieces now and then elsewhere."""
    cut = chance.randrange(len(data) + 1)
    gap = chance.choice((0, 512, 1 << 20, 1 << 40))
    numbers = [2, 0, cut, cut + gap, len(data) - cut] * chance.choice((1, 1, 1, 60))
    table = b"".join((chance.choice(_ODD_NUMBERS) if lies(chance) else b"%d" % n) + b"\n" for n in numbers)
    stored = table + bytes(-len(table) % 512) + data
    real = chance.choice((len(data) + gap, len(data) + gap, 1 << 62, 0))
    records = b""
    for key, value in ((b"major", b"1"), (b"minor", b"0"), (b"realsize", b"%d" % real)):
        record = b" GNU.sparse." + key + b"=" + value + b"\n"
        records += b"%d" % (len(record) + 2) + record
    front = tar_header(chance, b"extra", len(records), b"x") + records + bytes(-len(records) % 512)
    return front + tar_header(chance, name, len(stored), b"0") + stored + bytes(-len(stored) % 512)


def tar(chance: Chance, depth: int, files: list[tuple[bytes, bytes]] | None = None) -> bytes:
    """Return an archive of tar(1)."""
    gnu = chance.random() < 0.5
    out = b""
    for name, data in members(chance, depth) if files is None else files:
        if files is None and chance.random() < 0.06:
            out += sparse(chance, name, data)
            continue
        kind = chance.choice(_TAR_KINDS) if files is None else b"0"
        for _ in range(chance.choice((0, 0, 0, 0, 1, 3)) if files is None else 0):
            extra = chance.choice((b"x", b"L", b"K", b"g", b"X"))
            body = pax_records(chance, data) if extra in b"xgX" else chance.choice(_NAMES) * 9 + b"\0"
            out += tar_header(chance, b"extra", len(body), extra, gnu) + body + bytes(-len(body) % 512)
        block = tar_header(chance, name, len(data), kind, gnu)
        if kind == b"S":
            holes = b"".join(
                field(chance, b"%011o" % n, 12, b"\0")
                for n in (0, len(data), chance.choice((1 << 20, 1 << 33, len(data))), 0)
            )
            real = field(chance, b"%011o" % chance.choice((1 << 20, 1 << 35, len(data))), 12, b"\0")
            block = summed(
                block[:386] + holes.ljust(96, b"\0") + bytes([chance.choice((0, 0, 1))]) + real + block[495:]
            )
        out += block + data + bytes(-len(data) % 512)
    return out + bytes(chance.choice((1024, 1024, 0, 512, 10240)))


def documents(chance: Chance) -> bytes:
    """Return JSON as images have it, or something like it."""
    digests = [f"sha256:{letter * 64}" for letter in "abcd"]
    some: list[object] = [{"digest": chance.choice(digests)} for _ in range(chance.choice((0, 1, 3, 100)))]
    odd: list[object] = [
        None,
        1,
        "x",
        [],
        {},
        {"digest": 5},
        {"digest": "x" * 500},
        [[[]]],
        -1.5e300,
        {"digest": ":::"},
    ]
    if lies(chance, 0.2):
        some.append(chance.choice(odd))
    layers = [f"{letter * 64}/layer.tar" for letter in "abc"] * chance.choice((1, 1, 50))
    forms: list[object] = [
        {"manifests": some}, {"layers": some}, {"manifests": some, "layers": some},
        [{"Layers": layers}] * chance.choice((1, 3)), [{"Layers": chance.choice(odd)}], chance.choice(odd),
        {"manifests": chance.choice(odd)},
    ]  # fmt: skip
    text = json.dumps(chance.choice(forms)).encode()
    return b"[" * chance.choice((9, 5000, 200_000)) + text if lies(chance, 0.03) else text


def image(chance: Chance, depth: int) -> bytes:
    """Return a container image, an OCI layout or of `docker save`; what names what is left to chance."""
    files = []
    for letter in "abcd":
        inner = documents(chance) if letter in "ab" else packed(chance, tar(chance, depth))
        files.append((b"blobs/sha256/" + letter.encode() * 64, inner))
        if chance.random() < 0.3:
            files.append((letter.encode() * 64 + b"/layer.tar", inner))
    files += [(name, documents(chance)) for name in (b"index.json", b"manifest.json") if chance.random() < 0.8]
    chance.shuffle(files)
    return tar(chance, depth, files)


# -- zip


def zip_archive(chance: Chance, depth: int) -> bytes:
    """Return an archive of zip(1); entries may overlap, and lie about sizes and methods."""
    out, directory, count = b"", b"", 0
    offset = 0
    for name, data in members(chance, depth):
        method = chance.choice((0, 8, 8, 12, 93, 9))
        body = _METHODS.get(method, bytes)(data)
        if not lies(chance, 0.1):  # else it overlaps with the one before
            offset = len(out)
            out += struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, method, 0, 0, binary(chance, zlib.crc32(data), 32),
                               len(body), len(data), len(name), 0) + name + body  # fmt: skip
        extra = b""
        size, at = binary(chance, len(body), 32), binary(chance, offset, 32)
        if lies(chance, 0.15):
            extra = struct.pack("<HHQQQ", 1, 24, len(data), binary(chance, len(body), 64), binary(chance, offset, 64))
            size, at = 0xFFFFFFFF, 0xFFFFFFFF
        extra = extra * chance.choice((1, 1, 1, 40))
        mode = chance.choice((0, 0o100755, 0o100644, 0o120777, 0o40755)) << 16
        directory += struct.pack(
            "<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, binary(chance, 0, 16), method, 0, 0, zlib.crc32(data), size,
            0xFFFFFFFF if extra else len(data), len(name), len(extra), 0, 0, 0, mode, at,
        ) + name + extra  # fmt: skip
        count += 1
    if lies(chance, 0.15):
        sizes = binary(chance, len(directory), 64), binary(chance, len(out), 64)
        record = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, count, count, *sizes)
        directory += record + struct.pack("<IIQI", 0x07064B50, 0, len(out) + len(directory), 1)
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count & 0xFFFF, count & 0xFFFF,
                      binary(chance, len(directory), 32), binary(chance, len(out), 32), 0)  # fmt: skip
    return out + directory + end


def deflated(data: bytes) -> bytes:
    """Return *data* as a bare deflate stream."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def zstd(data: bytes) -> bytes:
    """Return *data* as a zstd frame of raw blocks (RFC 8878, 3.1.1), a window of 8 MiB."""
    out = b"\x28\xb5\x2f\xfd\x00\x68"
    pieces = [data[at : at + (1 << 17)] for at in range(0, len(data), 1 << 17)] or [b""]
    for number, piece in enumerate(pieces):
        out += (len(piece) << 3 | (number + 1 == len(pieces))).to_bytes(3, "little") + piece
    return out


# -- compressed


def packed(chance: Chance, data: bytes) -> bytes:
    """Return *data* in one or two compressed streams, or as it is; now and then with something behind."""
    pack = chance.choice(_PACKERS)
    if chance.random() < 0.2:
        cut = chance.randrange(len(data) + 1)
        data = pack(data[:cut]) + pack(data[cut:])
    else:
        data = pack(data)
    if lies(chance, 0.1):
        data += chance.choice((bytes(100), pack(b""), pack(b"") * 50, pack(b"a") * 50, b"x", data))
    return data


def compressed(chance: Chance, depth: int) -> bytes:
    """Return something compressed, that is perhaps compressed again."""
    data = content(chance, depth)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        data = packed(chance, data)
    return data


_METHODS: dict[int, Callable[[bytes], bytes]] = {8: deflated, 12: bz2.compress, 93: zstd}
_PACKERS: tuple[Callable[[bytes], bytes], ...] = (
    bytes,
    lambda data: gzip.compress(data, 1),
    lambda data: bz2.compress(data, 1),
    lambda data: lzma.compress(data, preset=0),
    zstd,
)
_NESTED: tuple[Callable[[Chance, int], bytes], ...] = (tar, ar, cpio, zip_archive, deb, rpm, image, compressed)


def _kind(make: Callable[[Chance, int], bytes]) -> Make:
    def archive(chance: Chance) -> bytes:
        data = wounded(chance, make(chance, chance.choice((0, 0, 1, 1, 2))), 0.3)
        return packed(chance, data) if chance.random() < 0.2 else data

    return archive


#: kind -> what makes one of it
KINDS: dict[str, Make] = {
    "ar": _kind(ar),
    "thin": _kind(lambda chance, depth: ar(chance, depth, thin=True)),
    "cpio": _kind(cpio),
    "tar": _kind(tar),
    "zip": _kind(zip_archive),
    "deb": _kind(deb),
    "rpm": _kind(rpm),
    "image": _kind(image),
    "compressed": _kind(compressed),
}
