"""Links, for the fuzzing of commands: their words, what goes in, what the linker makes, orders and settings.

The linker is a script of ours, which copies a file to ``out`` whatever is requested: words that are damaged may name
any file of this machine, so they are only understood; where a link runs to its end, its words are ours.
"""

import os
import random
import struct
import traceback
from collections.abc import Callable
from pathlib import Path

from hugealign.link import estimate, linkers
from hugealign.link import main as shim
from hugealign.link.job import Job, LeftAlone, understand
from hugealign.settings import VARIABLES, Settings
from tests.fuzz import archives, files, profiles

Chance = random.Random
Words = tuple[tuple[str, ...], ...]
STATUSES = frozenset({0, 1, 125})
_LINKER = b"""#!/bin/sh
case " $* " in *" --version "*) echo "GNU ld 2.40"; exit ;; esac
case " $* " in *=made=x*) cat x >out ;; *) cat prog >out ;; esac
"""
_WORDS = (
    *(
        "-o",
        "-oout",
        "--output=out",
        "-m",
        "elf_x86_64",
        "-melf_x86_64",
        "aarch64linux",
        "-z",
        "max-page-size=0x200000",
    ),
    *("-zmax-page-size=4096", "-Ttext-segment=0x400000", "--image-base=0x200000", "-T", "script.ld", "-Tscript.ld"),
    *(
        "-lc",
        "-l",
        ":libc.a",
        "-L.",
        "-L",
        ".",
        "--start-group",
        "--end-group",
        "-(",
        "-)",
        "main.o",
        "other.o",
        "prog",
    ),
    *("-r", "-n", "--version", "-static", "-Bdynamic", "-pie", "--oformat=binary", "-b", "binary", "-Map=m", "x", "@x"),
    *("-plugin", "liblto.so", "-plugin-opt=-fresolution=r", "--", "-", "--=", "-=", "-z=", "-m=", "--defsym=a=b", ""),
    *("@nothing", "@.", "@/dev/null", "'a b'", '"', "\\", "\\\n", "-rpath", "/lib", "--symbol-ordering-file=x"),
)


def beside() -> dict[str, bytes]:
    """Return the linkers, and the inputs and outputs of a link of the program."""
    names = ("ld.bfd", "ld.gold", "ld.lld", "ld.mold")
    return dict.fromkeys(names, _LINKER) | files.program()[0] | {"good.order": files.profiles()["order"]}


def words(chance: Chance) -> bytes:
    """Return a response file."""
    some = [chance.choice(_WORDS) for _ in range(chance.randrange(30))]
    text = chance.choice(("\n", " ", "\t")).join(some).encode()
    return profiles.mutate(text, text or b"-", chance) if chance.random() < 0.6 else text


def inputs(chance: Chance) -> bytes:
    """Return an object or an archive of objects, damaged."""
    made = files.program()[0]
    some = [(name.encode(), _object(chance, made[name])) for name in ("main.o", "other.o")]
    if chance.random() < 0.5:
        return some[0][1]
    data = archives.ar(chance, 0, thin=chance.random() < 0.2, files=some if chance.random() < 0.8 else None)
    return archives.wounded(chance, data, 0.5)


def _object(chance: Chance, data: bytes) -> bytes:
    """Return an object with odd section headers, or damaged anywhere."""
    out = bytearray(data)
    at, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    for _ in range(chance.choice((0, 1, 1, 3))):
        offset, size = chance.choice(((0, 4), (4, 4), *((8 + 8 * field, 8) for field in range(4)), (40, 4), (56, 8)))
        value = chance.choice((0, 1, 2, 4, 6, 8, 17, chance.getrandbits(8 * size), len(data), 1 << 63))
        place = at + 64 * chance.randrange(count) + offset
        out[place : place + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    return archives.wounded(chance, bytes(out), 0.4)


def settings(chance: Chance) -> bytes:
    """Return lines that set variables."""
    values = (
        *("0", "1", "2M", "64K", "-1", "1_0", "1e3", "", "9" * 400, "0x10", "K", "2m", "x", "error", "warn", "off"),
        *("*:prog", ":::", "[", "good.order", ".", "\x1b[31m", "\u0663", "out", "/dev/null", "1G", "3M"),
    )
    names = [*VARIABLES, "HUGEALIGN_WHAT", "_HUGEALIGN_SHIMS"]
    lines = [f"{chance.choice(names)}={chance.choice(values)}" for _ in range(chance.randint(1, 5))]
    text = "\n".join(lines).encode()
    return profiles.mutate(text, text, chance) if chance.random() < 0.2 else text


def _understand(arguments: list[str]) -> int:
    """Understand a link, as the shim does before it asks the linker."""
    job = understand("/usr/bin/ld.bfd", arguments, Settings())
    assert isinstance(job, (Job, LeftAlone))
    if isinstance(job, Job):
        job = job.with_users_page_size()
        assert estimate.code_bytes(job.command, job.settings.min_text) >= 0
        for kind in linkers.KINDS:
            linkers.named(kind).base(job.command, job.settings.page_size, job.machine)
    return 0


def _link(arguments: list[str]) -> int:
    """Link: *arguments* are settings of variables, the linker, and its arguments.  The shim ends its process."""
    rest = arguments[sum("=" in word for word in arguments if not word.startswith("-")) :]
    child = os.fork()
    if not child:
        try:
            os.environ["HUGEALIGN_MIN_TEXT"] = "0"
            os.environ |= dict(word.split("=", 1) for word in arguments[: -len(rest)])
            shim.main(["", os.path.abspath(rest[0]), *rest[1:]])
        except BaseException:  # noqa: BLE001  # whatever it is, it is what is looked for
            os.write(2, traceback.format_exc().encode("utf-8", "replace"))
        finally:
            os._exit(70)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _settled(arguments: list[str]) -> int:
    """Link with the variables that the file *arguments* begin with sets."""
    lines = Path(arguments[0]).read_text("utf-8", "surrogateescape").split("\n")
    set_ = [line for line in lines if line.partition("=")[0].strip("_").startswith("HUGEALIGN") and "\0" not in line]
    return _link([*(line for line in set_ if "=" in line), *arguments[1:]])


_MADE = "--defsym=made=x"  # to the linker: make the file x
_LINK = ("-pie", "-o", "out", "main.o", "other.o")
KINDS: dict[str, tuple[Callable[[Chance], bytes], Words, Callable[[list[str]], int]]] = {
    "link-words": (words, (("@x",), ("-o", "out", "main.o", "@x"), ("@x", "@x")), _understand),
    "link-inputs": (
        inputs,
        (
            ("ld.bfd", "-o", "out", "@"),
            ("HUGEALIGN_PROFILE=good.order", "ld.bfd", "-o", "out", "main.o", "@"),
            ("HUGEALIGN_PROFILE=good.order", "HUGEALIGN_ORDER_OBJECTS=1", "ld.lld", "-o", "out", "@", "other.o"),
            ("HUGEALIGN_PROFILE=good.order", "HUGEALIGN_ORDER_OBJECTS=1", "ld.gold", "-o", "out", "@"),
            ("HUGEALIGN_MIN_TEXT=256K", "ld.mold", "-o", "out", "@"),
        ),
        _link,
    ),
    "link-output": (
        files.elf,
        (
            *((f"ld.{name}", *_LINK, _MADE) for name in ("bfd", "gold", "lld", "mold")),
            ("HUGEALIGN_CHECK=error", "HUGEALIGN_PAGE_SIZE=64K", "ld.bfd", *_LINK, _MADE),
            ("HUGEALIGN_PROFILE=good.order", "HUGEALIGN_PAGE_SIZE=64K", "ld.bfd", *_LINK, _MADE),
        ),
        _link,
    ),
    "link-order": (
        files.order,
        tuple(("HUGEALIGN_PROFILE=x", f"ld.{name}", *_LINK) for name in ("bfd", "gold", "lld", "mold")),
        _link,
    ),
    "link-settings": (settings, (("@", "ld.bfd", *_LINK), ("@", "ld.lld", *_LINK)), _settled),
}
