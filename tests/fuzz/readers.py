"""Profiles of each form, packed ones, orders and traces, for the fuzzing of commands: a kind for each reader."""

import gzip
import io
import json
import random
import zlib
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hugealign.profile.formats import detect
from hugealign_lab import tracefile
from hugealign_lab.files import describe
from hugealign_lab.tracefile import BLOCK, LAST, Description
from lab.tests.traces import encode
from tests.fuzz import files, profiles

Words = tuple[tuple[str, ...], ...]
_FORMS = (
    *(name for name, text in profiles.SAMPLED.items() if detect(text) in profiles.WITHOUT_TOOLS),
    *("folded", "symbols", "order", "callgrind"),
    *("addresses", "chains", "branch-files", "branches", "pprof", "proto", "otlp", "gcov", "profdata"),
)
_TYPES = profiles.WITHOUT_TOOLS
_ODD: tuple[Any, ...] = (None, -1, 0, 1, 1 << 31, (1 << 63) - 1, 1 << 64, 1e999, "", "x", "\x1b[31m\n", [], {}, True)


def _profile(form: str, chance: random.Random) -> bytes:
    made = files.profiles()
    data = files.damaged(form, chance.choice(sorted(made)), chance)
    if chance.random() < 0.05:
        data = gzip.compress(data, mtime=0)
        data = profiles.mutate(data, data, chance) if chance.random() < 0.3 else data
    return data


@cache
def _good() -> tuple[Description, list[tuple[int, int, int, int]]]:
    """Return the description of a trace of the program, and blocks of it."""
    program = files.program()[0]["prog"]
    with TemporaryDirectory() as work:
        (Path(work) / "prog").write_bytes(program)
        file = describe(f"{work}/prog")
    described = tracefile.File("prog", file.identity, file.segments)
    text = next(segment for segment in file.segments if segment.executable)
    blocks = [(text.p_vaddr + 16 * at, 1, 16, 4) for at in range(text.p_memsz // 16)]
    return Description(("prog",), "x86_64", (tracefile.File(""), described), 1), blocks


def trace(chance: random.Random) -> bytes:
    """Return a trace whose parts fit together, with odd parts, or damaged anywhere."""
    description, blocks = _good()
    result = json.loads(json.dumps(asdict(description)))
    rows = [b"\0" * BLOCK.size, *(BLOCK.pack(*block) for block in blocks)]
    ran = [
        [chance.randrange(1, len(rows)) for _ in range(chance.randrange(1, 300))] for _ in range(chance.randint(1, 3))
    ]
    out = io.BytesIO()
    out.write(tracefile.MAGIC)
    for owner, ids in enumerate(ran, 1):
        payload = encode([ids])[0]
        if chance.random() < 0.2:
            payload = profiles.mutate(payload, payload, chance)
        tracefile.write_chunk(out, owner, LAST, len(ids), payload)
    result["events"] = sum(map(len, ran))
    parts = [result, result["files"][1], result["files"][1]["segments"][-1]]
    for _ in range(chance.randrange(3) if chance.random() < 0.5 else 0):
        part = chance.choice(parts)
        part[chance.choice(sorted(part))] = chance.choice(_ODD)
    if chance.random() < 0.3:
        code = (1 << 56, 1, 4096, 1), (0, 1, 1, 1), (0x1000, 0, 8, 8), (0x1000, 1, 4096, 4096)
        row = chance.choice((*code, (1 << 56, 1, 4096, 0), (1, 1, 4096, 0), (0, 0, 8, 0)))
        rows[chance.randrange(1, len(rows))] = BLOCK.pack(*row)
    at = out.tell()
    text, table = zlib.compress(json.dumps(result).encode()), zlib.compress(b"".join(rows))
    checksum = zlib.crc32(text + table)
    out.write(text + table + tracefile._FOOTER.pack(at, len(text), len(table), checksum, tracefile._END))
    data = out.getvalue()
    return profiles.mutate(data, data, chance) if chance.random() < 0.2 else data


_PROFILE: Words = (
    ("order", "@", "-b", "prog", "--force"),
    (
        "order",
        "@",
        "-b",
        "prog",
        "--force",
        "--json",
        "--windows=1",
        "--page-size=64K",
        "-o",
        "out",
    ),
    ("order", "@", "@", "-b", "prog", "--force", "--emit=lld", "-o", "out", "--windows=0"),
    ("map", "@", "-b", "prog", "--json", "--page-size=64K"),
    *(
        ("order", "@", "-b", "prog", "--force", f"--type={form}", "--max-unpacked=1M", "--cpu=skylake")
        for form in _TYPES
    ),
)
KINDS: dict[str, tuple[Callable[[random.Random], bytes], Words]] = {
    **{f"profile-{form}": (partial(_profile, form), _PROFILE) for form in _FORMS},
    "order-file": (
        files.order,
        (
            ("diff", "@", "good.order", "--json"),
            ("map", "folded", "-b", "prog", "--order", "@"),
            ("draw-map", "@", "-b", "prog", "--order", "@", "--page-size=64K", "-o", "out"),
        ),
    ),
    "trace": (
        trace,
        (
            ("simulate", "@", "--cpu=skylake", "--windows=0-2"),
            ("simulate", "@", "--json", "--curve", "--cpu=4k=4/2,2m=2", "--layout=order:good.order"),
            ("simulate", "@", "--binary=prog", "--cpu=zen3", "--layout=elf:prog", "--from=main", "--until=hot"),
            ("order-trace", "@", "--cpu=skylake", "-b", "prog", "-o", "out"),
        ),
    ),
}
