"""The processors for which hugealign lays out links and judges files: one row each.

This is what an ELF file and a link need to know.  The entries of their TLBs are in `system.processors`, and what their
machine code refers to in `code`.  A link reads this, so it imports nothing slow.  How to add one: CONTRIBUTING.md.
"""

import os

from hugealign import settings
from hugealign.records import Record
from hugealign.settings import MIN_TEXT, OWN, PAD_THRESHOLD

_K, _M = 1 << 10, 1 << 20


class Machine(Record):
    """One processor, by its ``e_machine`` (*number*), and *name*, its ``uname -m``; sizes are bytes.

    *triple* is that of its compilers and of Debian's directories. *emulations* are the names by which linkers know
    it (``-m``), *formats* those of BFD. *pages* are the base pages of its Linux kernels, the usual one first;
    *windows* the sizes of huge page that map text, likewise. *trap* is the instruction that fills pads; zeros can
    be holes in the file. *addresses* is where those of programs end (TASK_SIZE), with the largest page tables that
    programs get by default. *base* is where GNU ld puts those that are not position-independent.
    *linkers* are the linkers with a recipe for it, and their scripts in ld-scripts/, empty if they read none.

    *flags* are the usual ``e_flags``; our objects have those of the inputs, since linkers refuse to mix ABIs.
    *feature* is the property of control-flow protection (``GNU_PROPERTY_…_FEATURE_1_AND``), *features* all its bits; 0
    if linkers do not know of one.  *distance* are the relocations that store the distance between two places in 64
    bits: one that is relative to its own place, or an addition and a subtraction.  With *thunks*, lld puts symbols that
    are ordered by a list in the middle of the text (LLVM, D44969).

    Text smaller than *min_text* is not worth a window, nor is a tail of at most *pad_threshold*.
    """

    number: int
    name: str
    triple: str
    emulations: tuple[str, ...]
    formats: tuple[str, ...]
    pages: tuple[int, ...]
    windows: tuple[int, ...]
    trap: bytes
    addresses: int
    base: int
    linkers: dict[str, str]
    distance: tuple[int, ...]
    big: bool = False
    flags: int = 0
    feature: int = 0
    features: int = 0
    thunks: bool = False
    min_text: int = MIN_TEXT
    pad_threshold: int = PAD_THRESHOLD

    @property
    def order(self) -> str:
        """The byte order of its files, as `struct` writes it."""
        return ">" if self.big else "<"

    @property
    def holes(self) -> bool:
        """Whether a pad is all zeros."""
        return not any(self.trap)


#: Linkers without scripts: flags and an edit of the linked file are enough.
_OTHERS = {"mold": "", "gold": "", "wild": "", "unknown": ""}
#: Those that the tests run.  wild 0.10 also links for riscv64 and loongarch64.
_ZEROS = {"bfd": "bfd-zeros.ld", "lld": "lld-zeros.ld", "mold": ""}

X86_64 = Machine(
    62,
    "x86_64",
    "x86_64-linux-gnu",
    ("elf_x86_64",),
    ("elf64-x86-64",),
    (4 * _K,),
    (2 * _M,),
    b"\xcc",  # int3
    (1 << 47) - 4 * _K,
    4 * _M,
    {"bfd": "bfd-x86_64.ld", "lld": "lld-x86_64.ld", **_OTHERS},
    (24,),  # R_X86_64_PC64
    feature=0xC0000002,
    features=0xF,  # IBT, SHSTK, LAM_U48, LAM_U57
)
AARCH64 = Machine(
    183,
    "aarch64",
    "aarch64-linux-gnu",
    ("aarch64linux", "aarch64elf"),
    ("elf64-littleaarch64", "elf64-bigaarch64"),
    (4 * _K, 16 * _K, 64 * _K),
    (2 * _M,),
    bytes(4),  # UDF #0 (Arm ARM, C6.2): permanently undefined
    1 << 48,
    4 * _M,
    {"bfd": "bfd-zeros.ld", "lld": "lld-zeros.ld", **_OTHERS},
    (260,),  # R_AARCH64_PREL64
    feature=0xC0000000,
    features=0x7,  # BTI, PAC, GCS
    thunks=True,
)
RISCV64 = Machine(
    243,
    "riscv64",
    "riscv64-linux-gnu",
    ("elf64lriscv", "elf64lriscv_lp64", "elf64lriscv_lp64f"),
    ("elf64-littleriscv", "elf64-bigriscv"),
    (4 * _K,),
    (2 * _M,),
    bytes(4),  # 16 zero bits are illegal by definition (RISC-V unprivileged ISA, "Base Instruction-Length Encoding")
    1 << 56,  # Sv57; a processor with Sv39 ends at 1 << 38
    64 * _K,
    {**_ZEROS, "wild": ""},
    (36, 40),  # R_RISCV_ADD64, R_RISCV_SUB64
    flags=0x4,  # EF_RISCV_FLOAT_ABI_DOUBLE
)
PPC64LE = Machine(
    21,
    "ppc64le",
    "powerpc64le-linux-gnu",
    ("elf64lppc",),
    ("elf64-powerpcle", "elf64-powerpc"),
    (64 * _K, 4 * _K),
    (2 * _M, 16 * _M),  # radix page tables of POWER9 and later; hashed ones
    bytes(4),  # primary opcode 0: illegal (Power ISA, "Illegal Instructions")
    1 << 52,  # TASK_SIZE_4PB
    256 * _M,
    {**_ZEROS, "lld": "lld-ppc64le.ld"},
    (44,),  # R_PPC64_REL64
    flags=2,  # ELFv2
    thunks=True,
)
S390X = Machine(
    22,
    "s390x",
    "s390x-linux-gnu",
    ("elf64_s390",),
    ("elf64-s390",),
    (4 * _K,),
    (_M,),  # segment-table entries
    bytes(2),  # operation code 00: never assigned (z/Architecture Principles of Operation, "Operation Exception")
    1 << 53,  # page tables of four levels
    16 * _M,
    _ZEROS,
    (23,),  # R_390_PC64
    big=True,
)
LOONGARCH64 = Machine(
    258,
    "loongarch64",
    "loongarch64-linux-gnu",
    ("elf64loongarch",),
    ("elf64-loongarch",),
    (16 * _K, 4 * _K, 64 * _K),
    (32 * _M, 2 * _M, 512 * _M),  # one for each base page
    bytes(4),  # no instruction (LoongArch reference manual, volume 1, appendix B)
    1 << 48,
    0x120000000,
    {**_ZEROS, "wild": ""},
    (51, 56),  # R_LARCH_ADD64, R_LARCH_SUB64
    flags=0x43,  # double-float, object file ABI 1
    min_text=4 * _M,  # a window's memory and disk cache are 16 times those of the others
    pad_threshold=4 * _M,
)

#: The families of all processors that Debian knows, by ``e_machine``: rows are for one class and byte order.
_OTHER_NAMES = {
    2: "sparc", 3: "i386", 4: "m68k", 8: "mips", 15: "parisc", 20: "powerpc", 21: "ppc64", 22: "s390", 40: "arm",
    42: "sh", 43: "sparc64", 50: "ia64", 62: "x86", 93: "arc", 183: "aarch64", 243: "riscv", 252: "csky",
    258: "loongarch", 0x9026: "alpha",
}  # fmt: skip
#: By ``e_machine``.
MACHINES: dict[int, Machine] = {m.number: m for m in (X86_64, AARCH64, RISCV64, PPC64LE, S390X, LOONGARCH64)}
#: By the names that linkers know.
EMULATIONS: dict[str, Machine] = {name: m for m in MACHINES.values() for name in m.emulations}
FORMATS: tuple[str, ...] = tuple(name for m in MACHINES.values() for name in m.formats)


def machine_of(number: int, is64: bool = True, little: bool = True) -> Machine | None:
    """Return the row of the files with ``e_machine`` *number*, class and byte order; None if there is no row."""
    machine = MACHINES.get(number)
    return machine if machine and is64 and machine.big is not little else None


def name_of(number: int, is64: bool, little: bool) -> str:
    """Return the name of the processor that the arguments of `machine_of` mean, also of one without a row."""
    if row := machine_of(number, is64, little):
        return row.name
    name = _OTHER_NAMES.get(number) or f"e_machine {number}"
    return f"{name}, {64 if is64 else 32}-bit, {'little' if little else 'big'}-endian"


def native() -> Machine | None:
    """Return the row of the processor that this runs on, None if it has none."""
    name = os.uname().machine
    return next((machine for machine in MACHINES.values() if machine.name == name), None)


def page_size_of(machine: Machine | None, page_size: int) -> int:
    """Return *page_size*, or if that is OWN, the huge page size of *machine*, that of x86-64 if it is None."""
    return sizes(machine, page_size)[0]


def least_text(machine: Machine | None) -> int:
    """Return the least text worth a window, in bytes: HUGEALIGN_MIN_TEXT, or that of *machine*.  Raises UsageError."""
    return sizes(machine, min_text=settings.min_text())[1]


def sizes(machine: Machine | None, page_size: int = OWN, min_text: int = OWN) -> tuple[int, int, int]:
    """Return huge page size, least text and pad threshold for *machine*; sizes other than OWN are taken as they are.

    A processor without a row has those of x86-64.
    """
    row = machine or X86_64
    page = row.windows[0] if page_size == OWN else page_size
    usual = page == row.windows[0]
    least = (row.min_text if usual else MIN_TEXT) if min_text == OWN else min_text
    return page, least, min(row.pad_threshold if usual else PAD_THRESHOLD, least)
