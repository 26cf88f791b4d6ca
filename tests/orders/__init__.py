"""Order files that every reader has to accept, or to refuse, with a line each in ``expected``.

A line in ``accept/expected`` is what the file says (`described`); in ``reject/expected`` it is the number of the first
bad line, or ``first line``.  They are run by our reader and the link (tests/unit/test_orderfile.py), by the LLVM plugin
(tests/build/test_plugin.py), and by the launcher (tests/link/test_launcher.py), which looks at the first line alone.
"""

from pathlib import Path

from hugealign.orderfile import Entry, OrderFile

HERE = Path(__file__).parent


def vectors(folder: str) -> dict[str, str]:
    """What is expected of the files in *folder*, by name."""
    rows = (line.partition(":") for line in (HERE / folder / "expected").read_text().splitlines())
    return {name: expected.strip() for name, _, expected in rows}


def path(folder: str, name: str) -> Path:
    return HERE / folder / f"{name}.order"


def described(order: OrderFile) -> str:
    """The order on one line, in ASCII."""
    windows = [f"windows {int(order.header['windows'])}"] if "windows" in order.header else []
    return " | ".join([*windows, *map(_function, order.entries)])


def _function(entry: Entry) -> str:
    words = [entry.kind, _shown(entry.name) if entry.name else f"@{entry.address:x}"]
    words += [f"of {_shown(entry.file)}"] if entry.file else []
    words += [str(entry.samples)] if entry.samples else []
    words += [".".join(map(str, entry.blocks))] if entry.blocks else []
    words += [f"in {_shown(entry.unit)}"] if entry.unit else []
    words += [f"w{entry.window}"] if entry.window else []
    return " ".join([*words, *(f"= {_shown(alias)}" for alias in entry.aliases)])


def _shown(text: str) -> str:
    data = text.encode("utf-8", "surrogateescape")
    inside = range(1, len(data) - 1)
    plain = [(0x20 < byte < 0x7F and byte != 0x5C) or (byte == 0x20 and at in inside) for at, byte in enumerate(data)]
    return "".join(chr(byte) if kept else f"\\x{byte:02x}" for byte, kept in zip(data, plain, strict=True))
