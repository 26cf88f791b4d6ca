"""The TLBs of known processors: a table of published numbers, each row with its source.  No I/O.

A number that no source gives is None, never a guess.  Recurring sources:

- *OptMan*: Intel 64 and IA-32 Architectures Optimization Reference Manual, 248966, the tables "TLB Parameters of …".
- *CPUID*: the processor's own report, as `hugealign.system.cpuid` decodes it from public dumps (InstLatx64).
- *SOG*: AMD's Software Optimization Guide for the family, section "Memory Address Translation".
- *TRM*: Arm's Technical Reference Manual of the core, chapter "Memory management".

Intel divides some of these tables between the two threads of a core; then the number is for one thread.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hugealign.errors import UsageError
from hugealign.io.units import hint, printable

INTEL, AMD, ARM64 = "GenuineIntel", "AuthenticAMD", "aarch64"


@dataclass(frozen=True, slots=True)
class Tlb:
    """One translation table: *entries*, and *ways* of associativity (None: fully associative).

    *shared* entries also serve other page sizes, or data.
    """

    entries: int
    ways: int | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Cpu:
    """One microarchitecture: its instruction TLBs, and the source of the numbers.

    *l1_4k*, *l1_2m*: the first level for base pages and for huge ones: of 2 MiB, 1 MiB on s390x, 32 MiB on LoongArch.
    *l2_2m*: the second-level entries that can hold the translation of a huge page of instructions; None if not
    published, 0 entries if there are none, which turns every first-level miss into a page walk.  *l2*: the same for
    base pages.  *ids* are (family, models) on x86, (implementer, parts) on Arm; others do not say what they are.
    """

    name: str
    aliases: tuple[str, ...]
    vendor: str
    ids: tuple[tuple[int, range], ...]
    l1_4k: Tlb | None
    l1_2m: Tlb | None
    l2: Tlb | None
    l2_2m: Tlb | None
    source: str

    @property
    def itlb_2m(self) -> int | None:
        """First-level entries that can hold a 2 MiB instruction translation: the budget in windows; None if unknown."""
        return self.l1_2m.entries if self.l1_2m else None


def _models(family: int, *models: int) -> tuple[tuple[int, range], ...]:
    return tuple((family, range(model, model + 1)) for model in models)


def _shared(entries: int, ways: int | None = None) -> Tlb:
    return Tlb(entries, ways, shared=True)


def _intel(names: str, models: Iterable[int], tlbs: tuple[Tlb, Tlb, Tlb, Tlb], source: str) -> Cpu:
    name, *aliases = names.split()
    return Cpu(name, tuple(aliases), INTEL, _models(6, *models), *tlbs, source)


def _amd(names: str, family: int, models: Iterable[range], l2: Tlb, source: str) -> Cpu:
    """Return a processor whose two levels hold all page sizes."""
    name, *aliases = names.split()
    l1 = _shared(64)
    return Cpu(name, tuple(aliases), AMD, tuple((family, some) for some in models), l1, l1, l2, l2, source)


def _neoverse(names: str, ids: tuple[tuple[int, range], ...], l2: Tlb, source: str) -> Cpu:
    """Return a core whose two levels hold all page sizes."""
    name, *aliases = names.split()
    l1 = _shared(48)
    return Cpu(name, tuple(aliases), ARM64, ids, l1, l1, l2, l2, source)


def _unpublished(name: str, alias: str, vendor: str, source: str) -> Cpu:
    """Return a processor whose TLBs no source gives."""
    return Cpu(name, (alias,), vendor, (), None, None, None, None, source)


_NONE = Tlb(0)
_NO_SIZES = (
    "no published number was found for this table; of its predecessor, IBM's z13s Technical Guide, section 3.4.11, "
    "names two levels without their sizes"
)
_GOLDEN_COVE = (Tlb(256, 8), Tlb(32, 8), _shared(2048, 8), _shared(1024, 8))
_ARM = 0x41

CPUS: tuple[Cpu, ...] = (
    _intel(
        "ivybridge ivb sandybridge snb",
        (0x2A, 0x2D, 0x3A, 0x3E),
        (Tlb(64, 4), Tlb(8), _shared(512, 4), _NONE),
        "CPUID leaf 2 of 306A9h and 306E3h: descriptors B2h, 76h, CAh (SDM vol. 2A, table 3-12)",
    ),
    _intel(
        "haswell hsw",
        (0x3C, 0x3F, 0x45, 0x46),
        (Tlb(64, 8), Tlb(8), _shared(1024, 8), _shared(1024, 8)),
        "CPUID leaf 2 of 306C3h: descriptors B5h, 76h, C1h (SDM vol. 2A, table 3-12)",
    ),
    _intel(
        "broadwell bdw",
        (0x3D, 0x47, 0x4F, 0x56),
        (Tlb(64, 8), Tlb(8), _shared(1536, 6), _shared(1536, 6)),
        "CPUID leaf 2 of 406F1h: descriptors B5h, 76h, C3h (SDM vol. 2A, table 3-12)",
    ),
    _intel(
        "skylake skl skx cascadelake clx cooperlake kabylake coffeelake cometlake",
        (0x4E, 0x5E, 0x55, 0x8E, 0x9E, 0xA5, 0xA6),
        (Tlb(128, 8), Tlb(8), _shared(1536, 12), _shared(1536, 12)),
        "OptMan 248966-045, table 2-15; CPUID leaf 2 of 506E3h and 50657h: descriptors B6h or B5h, 76h, C3h",
    ),
    _intel(
        "icelake icl icx rocketlake",
        (0x6A, 0x6C, 0x7D, 0x7E, 0xA7),
        (Tlb(128, 8), _shared(8), _shared(2048, 8), _shared(1024, 8)),
        "CPUID leaf 18h of 606A6h, 706E5h and A0671h; for 4 KiB, which that leaves out, Chips and Cheese on Sunny Cove",
    ),
    _intel(
        "tigerlake tgl",
        (0x8C, 0x8D),
        (Tlb(128, 8), Tlb(16, 8), _shared(2048, 8), _shared(1024, 8)),
        "CPUID leaf 18h of 806C1h",
    ),
    _intel("sapphirerapids spr goldencove", (0x8F,), _GOLDEN_COVE, "CPUID leaf 18h of 806F8h"),
    _intel(
        "alderlake-p alderlake adl raptorlake-p raptorlake rpl",
        (0x97, 0x9A, 0xB7, 0xBA, 0xBF),
        _GOLDEN_COVE,
        "CPUID leaf 18h of 90672h, B0671h and B06F2h, on a performance core",
    ),
    _intel("emeraldrapids emr", (0xCF,), _GOLDEN_COVE, "CPUID leaf 18h of C06F2h"),
    _intel("graniterapids gnr", (0xAD, 0xAE), _GOLDEN_COVE, "CPUID leaf 18h of A06D1h"),
    _intel(
        "redwoodcove meteorlake mtl arrowlake-u",
        (0xAA, 0xB5),
        _GOLDEN_COVE,
        "CPUID leaf 18h of A06A4h and B0650h, on a performance core",
    ),
    _intel(
        "lioncove lunarlake lnl arrowlake arl",
        (0xBD, 0xC5, 0xC6),
        _GOLDEN_COVE,
        "CPUID leaf 18h of B06D1h, C0652h and C0662h, on a performance core",
    ),
    _intel(
        "cougarcove pantherlake ptl",
        (0xCC,),
        (Tlb(256, 8), Tlb(32, 8), _shared(3072, 4), _shared(2048, 8)),
        "CPUID leaf 18h of C06C3h, on a performance core",
    ),
    Cpu(
        "sierraforest",
        ("srf", "crestmont"),
        INTEL,
        _models(6, 0xAF),
        Tlb(64),
        None,
        _shared(3072, 6),
        _shared(3072, 6),
        "CPUID leaf 18h of A06A4h on an efficiency core, which is Crestmont too; it lists no first-level entries for "
        "2 MiB instruction pages; of A06F3h itself nothing is published",
    ),
    _amd(
        "zen1 zen zen+ znver1 naples",
        0x17,
        (range(0x30), range(0x50, 0x60)),
        _shared(512, 8),
        "SOG 55723 rev. 3.00; CPUID 80000005h of 800F12h (its 80000006h claims 1024 in the second level)",
    ),
    _amd(
        "zen2 znver2 rome",
        0x17,
        (range(0x30, 0x50), range(0x60, 0xB0)),
        _shared(512, 8),
        "SOG 56305; CPUID 80000005h of 830F10h (its 80000006h claims 1024 in the second level)",
    ),
    _amd(
        "zen3 znver3 milan",
        0x19,
        (range(0x10), range(0x20, 0x60)),
        _shared(512, 8),
        "SOG 56665 rev. 3.00; CPUID 80000005h and 80000006h of A00F11h",
    ),
    _amd(
        "zen4 znver4 genoa bergamo",
        0x19,
        (range(0x10, 0x20), range(0x60, 0xB0)),
        _shared(512, 8),
        "SOG 57647; CPUID 80000005h and 80000006h of A10F11h and AA0F02h",
    ),
    _amd(
        "zen5 znver5 turin",
        0x1A,
        (range(0x50), range(0x60, 0x80)),
        _shared(2048, 8),
        "SOG 58455 rev. 1.00; Hot Chips 2024, “Next Generation Zen 5 Core”; CPUID 80000005h of B00F21h and B10F10h "
        "(Turin, and Turin Dense)",
    ),
    _neoverse(
        "neoverse-n1 graviton2 altra",
        _models(_ARM, 0xD0C),
        _shared(1280, 5),
        "TRM 100616, TLB organization (as Cortex-A76, TRM 100798 section A5.2)",
    ),
    _neoverse("neoverse-v1 graviton3", _models(_ARM, 0xD40), _shared(2048, 8), "TRM 101427, TLB organization"),
    _neoverse(
        "neoverse-n2 cobalt100 yitian710",
        (*_models(_ARM, 0xD49), *_models(0x6D, 0xD49)),
        _shared(1280, 5),
        "TRM 102099, TLB organization",
    ),
    _neoverse("neoverse-v2 graviton4 grace", _models(_ARM, 0xD4F), _shared(2048, 8), "TRM 102375, TLB organization"),
    _neoverse(
        "neoverse-v3 graviton5",
        _models(_ARM, 0xD84),
        _shared(2048, 8),
        "TRM 107734, as Jiajie Chen quotes it, who also measured the 48 entries (“ARM Neoverse V3”, June 2026)",
    ),
    Cpu(
        "kunpeng920",
        ("taishan-v110", "tsv110"),
        ARM64,
        _models(0x48, 0xD01),
        Tlb(32),
        None,
        None,
        None,
        "Chips and Cheese, “Huawei's Kunpeng 920 and TaiShan v110 CPU Architecture”, July 2025, measured with small "
        "pages; nothing published about 2 MiB",
    ),
    Cpu(
        "la464",
        ("3a5000", "3c5000"),
        "loongarch64",
        (),
        None,
        None,
        _shared(2048, 8),
        _shared(64),
        "QEMU's model of the core (LOONGARCH_STLB, LOONGARCH_MTLB and CPUCFG in target/loongarch): the first table has "
        "one page size at a time, so huge pages are in the second (LoongArch Reference Manual, volume 1, on the TLB); "
        "nothing published about a first level for instructions",
    ),
    _unpublished(
        "la664",
        "3a6000",
        "loongarch64",
        "Linux reports 2112 entries (/proc/cpuinfo of a 3A6000, loongson-community/areweloongyet), as of LA464, which "
        "has 2048 and 64; nothing published says how they are divided, or of a first level for instructions",
    ),
    Cpu(
        "u54",
        ("polarfire-soc",),
        "riscv64",
        (),
        _shared(32),
        _shared(32),
        None,
        None,
        "Microchip, PolarFire SoC MSS Technical Reference Manual, “MMU”: 32 entries, fully associative, for pages of "
        "4 KiB, 2 MiB and 1 GiB",
    ),
    Cpu(
        "p550",
        ("eic7700x",),
        "riscv64",
        (),
        Tlb(32),
        None,
        None,
        None,
        "Chips and Cheese, “Inside SiFive's P550 Microarchitecture”, January 2025, measured with small pages; nothing "
        "published about 2 MiB",
    ),
    _unpublished("p670", "p600", "riscv64", "no published number was found for this table"),
    Cpu(
        "power9",
        ("pwr9",),
        "ppc64le",
        (),
        Tlb(256),
        None,
        None,
        None,
        "Jiajie Chen, “IBM POWER9” (draft), January 2026, measured on an SMT4 core with pages of 64 KiB; IBM's POWER9 "
        "Processor User's Manual could not be read for this table, and nothing else was found about 2 MiB",
    ),
    Cpu(
        "power10",
        ("pwr10",),
        "ppc64le",
        (),
        None,
        None,
        _shared(4096),
        None,
        "Starke and Thompto, “IBM's POWER10 Processor”, Hot Chips 32 (2020): 4096 entries of the second level; of the "
        "first, and of page sizes, nothing is in it",
    ),
    _unpublished("z15", "8561", "s390x", _NO_SIZES),
    _unpublished("z16", "3931", "s390x", _NO_SIZES),
)


def names() -> Iterator[str]:
    """Yield every name and alias that `find` knows, in the order of the table."""
    for cpu in CPUS:
        yield cpu.name
        yield from cpu.aliases


def find(name: str) -> Cpu:
    """Return the processor called *name*, ignoring case.  Raises UsageError, which names similar ones, or all."""
    wanted = name.lower()
    for cpu in CPUS:
        if wanted == cpu.name or wanted in cpu.aliases:
            return cpu
    known = hint(name, names()) or f"; known are {', '.join(cpu.name for cpu in CPUS)}"
    raise UsageError(f"unknown CPU {printable(name)}{known}")


def identify(vendor: str, family: int, model: int) -> Cpu | None:
    """Return the processor with these numbers of CPUID leaf 1 (including the extended ones), or None if unknown.

    Intel's models: arch/x86/include/asm/intel-family.h; AMD's ranges: bsp_init_amd in arch/x86/kernel/cpu/amd.c.
    """
    for cpu in CPUS:
        if cpu.vendor == vendor and any(family == number and model in models for number, models in cpu.ids):
            return cpu
    return None


def identify_midr(midr: int) -> Cpu | None:
    """Return the Arm core with this MIDR_EL1 *midr*, or None.

    Implementer in bits 31:24, part number in bits 15:4 (Arm ARM, MIDR_EL1; arch/arm64/include/asm/cputype.h).
    """
    return identify(ARM64, midr >> 24 & 0xFF, midr >> 4 & 0xFFF)
