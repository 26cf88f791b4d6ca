"""What x86 processors report about themselves with the CPUID instruction.  Pure: the caller supplies the leaves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hugealign.system.processors import AMD, INTEL, Tlb

#: EAX, EBX, ECX, EDX.
Registers = tuple[int, int, int, int]
#: ``leaf(number, subleaf)`` returns the registers that CPUID gives for these.
Leaf = Callable[[int, int], Registers]

# Descriptor of leaf 2 -> fields of Tlbs and their value: Intel SDM vol. 2A, CPUID, table 3-12.  Only for processors
# since Nehalem; cpuid_0x2_table.c in the kernel has the older ones.
_DESCRIPTORS: Mapping[int, tuple[tuple[str, ...], Tlb]] = {
    0x50: (("l1_4k", "l1_2m"), Tlb(64, None, shared=True)),
    0x51: (("l1_4k", "l1_2m"), Tlb(128, None, shared=True)),
    0x52: (("l1_4k", "l1_2m"), Tlb(256, None, shared=True)),
    0x55: (("l1_2m",), Tlb(7)),
    0x61: (("l1_4k",), Tlb(48)),
    0x76: (("l1_2m",), Tlb(8)),
    0xB0: (("l1_4k",), Tlb(128, 4)),
    0xB1: (("l1_2m",), Tlb(8, 4)),
    0xB2: (("l1_4k",), Tlb(64, 4)),
    0xB5: (("l1_4k",), Tlb(64, 8)),
    0xB6: (("l1_4k",), Tlb(128, 8)),
    0xC1: (("l2", "l2_2m"), Tlb(1024, 8, shared=True)),
    0xC3: (("l2", "l2_2m"), Tlb(1536, 6, shared=True)),
    0xCA: (("l2",), Tlb(512, 4, shared=True)),
}
_SEE_LEAF_18H = 0xFE
_MAX_SUBLEAVES = 64

# Associativity in CPUID 80000006h and 80000019h: AMD APM vol. 3, appendix E, table "L2/L3 Cache and TLB
# Associativity Field Encoding".
_AMD_WAYS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 16, 10: 32, 11: 48, 12: 64, 13: 96, 14: 128, 15: None}
# From family 1Ah (Zen 5) on, the second level is wrong: Turin says 64, its manual 2048 entries.
_AMD_FIRST_WITHOUT_L2 = 0x1A


@dataclass(frozen=True, slots=True)
class Tlbs:
    """The instruction TLBs that the processor reports; None for those it does not.  Fields as in `processors.Cpu`."""

    l1_4k: Tlb | None = None
    l1_2m: Tlb | None = None
    l2: Tlb | None = None
    l2_2m: Tlb | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of the processor: *family* and *model* include the extended ones."""

    vendor: str
    family: int
    model: int
    brand: str


def identity(leaf: Leaf) -> Identity:
    """Return the identity.  Intel SDM vol. 2A, CPUID, leaves 0, 1 and 80000002h to 80000004h."""
    _, ebx, ecx, edx = leaf(0, 0)
    eax = leaf(1, 0)[0]
    family, model = eax >> 8 & 15, eax >> 4 & 15
    if family in (6, 15):
        model |= eax >> 12 & 0xF0
    if family == 15:
        family += eax >> 20 & 0xFF
    brand = b""
    if leaf(0x80000000, 0)[0] >= 0x80000004:
        brand = b"".join(_bytes(*leaf(number, 0)) for number in (0x80000002, 0x80000003, 0x80000004))
    return Identity(_text(_bytes(ebx, edx, ecx)), family, model, _text(brand))


def tlbs(leaf: Leaf) -> Tlbs:
    """Return the instruction TLBs that the processor reports."""
    who = identity(leaf)
    if who.vendor == INTEL:
        return _intel(leaf)
    if who.vendor == AMD and leaf(0x80000000, 0)[0] >= 0x80000006:
        return _amd(leaf, who.family)
    return Tlbs()


def _intel(leaf: Leaf) -> Tlbs:
    highest = leaf(0, 0)[0]
    if highest < 2:
        return Tlbs()
    # Bit 31 set: no descriptors in this register.  AL is the number of times to ask, always 1.
    registers = [r for r in leaf(2, 0) if not r >> 31]
    descriptors = _bytes(*registers)
    if leaf(2, 0)[0] >> 31 == 0:
        descriptors = descriptors[1:]
    if _SEE_LEAF_18H in descriptors and highest >= 0x18:
        return _leaf_18h(leaf)
    tlbs: dict[str, Tlb] = {}
    for descriptor in descriptors:
        fields, tlb = _DESCRIPTORS.get(descriptor, ((), Tlb(0)))
        tlbs.update(dict.fromkeys(fields, tlb))
    if "l2" in tlbs:
        tlbs.setdefault("l2_2m", Tlb(0))
    return Tlbs(**tlbs)


def _leaf_18h(leaf: Leaf) -> Tlbs:
    """Read the "deterministic address translation parameters": one table per subleaf."""
    tlbs: dict[str, Tlb] = {}
    for subleaf in range(min(leaf(0x18, 0)[0] + 1, _MAX_SUBLEAVES)):
        _, ebx, sets, edx = leaf(0x18, subleaf)
        kind, level, full = edx & 31, edx >> 5 & 7, edx >> 8 & 1
        if kind not in (2, 3):  # instructions; instructions and data
            continue
        small, large, ways = ebx & 1, ebx & 2, ebx >> 16
        if level == 1:
            tlb = Tlb(ways * sets, None if full else ways, shared=bool(small and large))
            fields = ["l1_4k"] * small + ["l1_2m"] * (large >> 1)
        elif level == 2:
            tlb = Tlb(ways * sets, None if full else ways, shared=True)
            fields = ["l2"] * small + ["l2_2m"] * (large >> 1)
        else:
            continue
        for field in fields:
            # Two tables may hold the same page size, like the two halves of the second level.
            tlb_before = tlbs.get(field)
            tlbs[field] = Tlb(tlb_before.entries + tlb.entries, tlb.ways, shared=True) if tlb_before else tlb
    return Tlbs(**tlbs)


def _amd(leaf: Leaf, family: int) -> Tlbs:
    large, small, _, _ = leaf(0x80000005, 0)
    levels = [_amd_l1(small, shared=small == large), _amd_l1(large, shared=small == large)]
    if family < _AMD_FIRST_WITHOUT_L2:
        large, small, _, _ = leaf(0x80000006, 0)
        levels += [_amd_l2(small), _amd_l2(large)]
    return Tlbs(*levels)


def _amd_l1(register: int, *, shared: bool) -> Tlb | None:
    entries, ways = register & 0xFF, register >> 8 & 0xFF
    return Tlb(entries, None if ways == 0xFF else ways, shared) if entries and ways else None


def _amd_l2(register: int) -> Tlb | None:
    entries, code = register & 0xFFF, register >> 12 & 15
    return Tlb(entries, _AMD_WAYS[code], shared=True) if code in _AMD_WAYS and entries else Tlb(0)


def _bytes(*registers: int) -> bytes:
    return b"".join(register.to_bytes(4, "little") for register in registers)


def _text(raw: bytes) -> str:
    return " ".join(raw.partition(b"\0")[0].decode("latin-1").split())
