"""Traces for tests: written by an encoder of their own, after docs/reference/trace-file.md."""

from collections.abc import Sequence
from pathlib import Path

from hugealign.elf.symbols import Functions
from hugealign_lab import tracefile
from hugealign_lab.ran import profile
from hugealign_lab.replay import Replay
from hugealign_lab.tracefile import BLOCK, LAST, RAW, Description, File, Trace, TracedSegment

MIB = 1 << 20
#: A program with 6 MiB of text from 4 KiB on, and a library.
FILES = (
    File(""),
    File("/bin/program", "build-id:01", (TracedSegment(0x1000, 0x1000, 6 * MIB, 6 * MIB, executable=True),)),
    File("/lib/library", "build-id:02", (TracedSegment(0, 0, MIB, MIB, executable=True),)),
)
Block = tuple[int, int, int, int]  # address, file, size, instructions


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def encode(parts: Sequence[Sequence[int]]) -> list[bytes]:
    """Encode the chunks of one stream."""
    guess: dict[int, int] = {}
    history = (0, 0, 0)
    chunks = []
    for ids in parts:
        out, right = b"", 0
        for number in ids:
            mixed = 0
            for before, factor in zip(history, (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D), strict=True):
                mixed ^= before * factor % (1 << 32)
            if guess.get(mixed >> 16) == number:
                right += 1
            else:
                step = number - history[0]
                out += _varint(right) + _varint(2 * step if step >= 0 else -2 * step - 1)
                guess[mixed >> 16] = number
                right = 0
            history = (number, *history[:2])
        chunks.append(out + _varint(right))
    return chunks


def write_trace(
    path: Path,
    blocks: Sequence[Block],
    streams: Sequence[Sequence[Sequence[int]]],
    raw: bool = False,
) -> Path:
    """Write a trace of *streams*, each in parts; if *raw*, the last part of each as a killed process leaves it."""
    with path.open("wb") as out:
        out.write(tracefile.MAGIC)
        for owner, parts in enumerate(streams, 1):
            payloads = encode(parts)
            for index, (ids, payload) in enumerate(zip(parts, payloads, strict=True), 1):
                last = index == len(parts)
                if last and raw:
                    plain = b"".join(number.to_bytes(4, "little") for number in ids)
                    tracefile.write_chunk(out, owner, LAST | RAW, len(ids), plain)
                else:
                    tracefile.write_chunk(out, owner, LAST * last, len(ids), payload)
        events = sum(len(ids) for parts in streams for ids in parts)
        table = bytes(BLOCK.size) + b"".join(BLOCK.pack(*block) for block in blocks)
        tracefile.write_end(out, Description(("program",), "x86_64", FILES, 1, events), table)
    return path


def executed(trace: Trace) -> list[int]:
    """How often each block of *trace* ran, by its number."""
    with Replay(trace) as replay:
        replay.run()
        return replay.executions()


def heat(trace: Trace, file: int, functions: Functions) -> list[int]:
    """The instructions that ran in each of the *functions* of the file with that number."""
    ran = profile(trace, file, functions)[0].samples
    return [ran.get(index, 0) for index in range(len(functions))]
