"""The table of processors, and the decoding of CPUID, held against dumps of real processors."""

import itertools
from pathlib import Path

import pytest

from hugealign.errors import UsageError
from hugealign.system import cpuid
from hugealign.system import this_processor as processor
from hugealign.system.cpuid import Leaf, Registers, Tlbs
from hugealign.system.processors import AMD, CPUS, INTEL, Tlb, find, identify, identify_midr, names

# EBX, ECX, EDX of leaf 0
_GENUINE_INTEL = (0x756E6547, 0x6C65746E, 0x49656E69)
_AUTHENTIC_AMD = (0x68747541, 0x444D4163, 0x69746E65)

# Row of the table -> leaf 1 EAX and the registers of leaf 2, as InstLatx64 publishes them.
LEAF_2: dict[str, tuple[int, Registers]] = {
    "ivybridge": (0x306A9, (0x76035A01, 0x00F0B2FF, 0, 0x00CA0000)),
    "haswell": (0x306C3, (0x76036301, 0x00F0B5FF, 0, 0x00C10000)),
    "broadwell": (0x406F1, (0x76036301, 0x00F0B5FF, 0, 0x00C30000)),
    "skylake": (0x506E3, (0x76036301, 0x00F0B6FF, 0, 0x00C30000)),
}
# The same for leaf 18h: EBX, ECX, EDX of its subleaves.
_GOLDEN_COVE = (
    (0, 0, 0),
    (0x00080001, 0x20, 0x4022),
    (0x00080006, 0x04, 0x4022),
    (0x0010000F, 0x01, 0x4125),
    (0x00040001, 0x10, 0x4024),
    (0x00040006, 0x08, 0x4024),
    (0x00080008, 0x01, 0x4124),
    (0x00080007, 0x80, 0x4043),
    (0x00080009, 0x80, 0x4043),
)
_ICE_LAKE = ((0, 0, 0), (0x00080007, 0x01, 0x4122), *_GOLDEN_COVE[3:])
_TIGER_LAKE = ((0, 0, 0), (0x00080001, 0x10, 0x4022), (0x00080006, 0x02, 0x4022), *_GOLDEN_COVE[3:])
_REDWOOD_COVE = (*_GOLDEN_COVE[:4], (0x00060001, 0x10, 0x4024), *_GOLDEN_COVE[5:])
_LION_COVE = (*_GOLDEN_COVE[:4], (0x00080001, 0x10, 0x4024), *_GOLDEN_COVE[5:])
_COUGAR_COVE = (*_LION_COVE[:7], (0x00080007, 0x100, 0x4043), (0x00040009, 0x100, 0x4043))
#: An efficiency core of A06A4h; no report is known of a Sierra Forest.
_CRESTMONT = (
    (0, 0, 0),
    (0x00300001, 0x01, 0x0121),
    (0x00060003, 0x200, 0x0043),
    (0x00400001, 0x01, 0x0122),
    (0x00080008, 0x01, 0x0143),
)
LEAF_18H = {
    "icelake": (0x606A6, _ICE_LAKE),
    "tigerlake": (0x806C1, _TIGER_LAKE),
    "sapphirerapids": (0x806F8, _GOLDEN_COVE),
    "alderlake-p": (0x90672, _GOLDEN_COVE),
    "emeraldrapids": (0xC06F2, _GOLDEN_COVE),
    "graniterapids": (0xA06D1, _GOLDEN_COVE),
    "redwoodcove": (0xA06A4, _REDWOOD_COVE),
    "lioncove": (0xB06D1, _LION_COVE),
    "cougarcove": (0xC06C3, _COUGAR_COVE),
    "sierraforest": (0xA06F3, _CRESTMONT),
}
# Leaf 1 EAX; EAX and EBX of 80000005h and 80000006h.
AMD_LEAVES = {
    "zen1": (0x800F12, (0xFF40FF40, 0xFF40FF40), (0x36006400, 0x56006400)),
    "zen2": (0x830F10, (0xFF40FF40, 0xFF40FF40), (0x48006400, 0x68006400)),
    "zen3": (0xA00F11, (0xFF40FF40, 0xFF40FF40), (0x48002200, 0x68004200)),
    "zen4": (0xA10F11, (0xFF48FF40, 0xFF48FF40), (0x5C002200, 0x6C004200)),
    "zen5": (0xB00F21, (0xFF60FF40, 0xFF60FF40), (0x40802040, 0x60804040)),
}


def leaves(vendor: tuple[int, int, int], signature: int, given: dict[tuple[int, int], Registers]) -> Leaf:
    known = {(0, 0): (0x20, *vendor), (1, 0): (signature, 0, 0, 0)} | given
    return lambda leaf, subleaf: known.get((leaf, subleaf), (0, 0, 0, 0))


def intel_2(name: str) -> Leaf:
    signature, registers = LEAF_2[name]
    return leaves(_GENUINE_INTEL, signature, {(2, 0): registers})


def intel_18h(name: str) -> Leaf:
    signature, subleaves = LEAF_18H[name]
    given: dict[tuple[int, int], Registers] = {(2, 0): (0x00FEFF01, 0xF0, 0, 0)}
    for number, registers in enumerate(subleaves):
        given[0x18, number] = (len(subleaves) - 1 if number == 0 else 0, *registers)
    return leaves(_GENUINE_INTEL, signature, given)


def amd(name: str) -> Leaf:
    signature, first, second = AMD_LEAVES[name]
    given = {
        (0x80000000, 0): (0x80000020, 0, 0, 0),
        (0x80000005, 0): (*first, 0, 0),
        (0x80000006, 0): (*second, 0, 0),
    }
    return leaves(_AUTHENTIC_AMD, signature, given)


@pytest.mark.parametrize(
    ("name", "leaf"),
    [
        *((name, intel_2(name)) for name in LEAF_2),
        *((name, intel_18h(name)) for name in LEAF_18H),
        *((name, amd(name)) for name in AMD_LEAVES),
    ],
)
def test_the_table_agrees_with_what_processors_say(name: str, leaf: Leaf) -> None:
    who, output, row = cpuid.identity(leaf), cpuid.tlbs(leaf), find(name)
    assert identify(who.vendor, who.family, who.model) is row
    assert output.l1_2m == row.l1_2m
    # Ice Lake names only the eight entries that large pages may use.
    assert name == "icelake" or output.l1_4k == row.l1_4k
    if who.vendor == INTEL:
        # The manual has 12 ways for Skylake where descriptor C3h means 6.
        assert output.l2_2m is not None
        assert output.l2_2m.entries == (row.l2_2m and row.l2_2m.entries)


def test_every_x86_row_is_held_against_a_processor() -> None:
    dumped = {*LEAF_2, *LEAF_18H, *AMD_LEAVES}
    rows = {cpu.name for cpu in CPUS if cpu.vendor in (INTEL, AMD)}
    assert rows == dumped, "a row needs the registers of a CPUID dump in LEAF_2, LEAF_18H or AMD_LEAVES"


def test_details_of_decoding() -> None:
    assert cpuid.tlbs(intel_2("ivybridge")) == Tlbs(Tlb(64, 4), Tlb(8), Tlb(512, 4, shared=True), Tlb(0))
    spr = cpuid.tlbs(intel_18h("sapphirerapids"))
    assert (spr.l2, spr.l2_2m) == (Tlb(2048, 8, shared=True), Tlb(1024, 8, shared=True))
    zen2, zen5 = cpuid.tlbs(amd("zen2")), cpuid.tlbs(amd("zen5"))
    assert (zen2.l2_2m, zen5.l2_2m) == (Tlb(1024, 8, shared=True), None)


@pytest.mark.parametrize("fill", [0, 0xFFFFFFFF, 0x7FFFFFFF, 0x02020202])
def test_absurd_leaves_decode_to_something(fill: int) -> None:
    for vendor in (_GENUINE_INTEL, _AUTHENTIC_AMD, (fill, fill, fill)):

        def leaf(number: int, _subleaf: int, vendor: tuple[int, int, int] = vendor) -> Registers:
            return (fill, *vendor) if number == 0 else (fill, fill, fill, fill)

        cpuid.tlbs(leaf)


def test_names_and_numbers_are_unambiguous() -> None:
    assert len(list(names())) == len(set(names()))
    assert all(name == name.lower() for name in names())
    for one, other in itertools.combinations(CPUS, 2):
        for number, models in one.ids:
            for number_2, models_2 in other.ids:
                same = (one.vendor, number) == (other.vendor, number_2)
                assert not (same and set(models) & set(models_2)), (one.name, other.name)
    assert all(cpu.source for cpu in CPUS)


@pytest.mark.parametrize(
    ("name", "entries", "second"),
    [
        ("ivb", 8, 0),
        ("SKX", 8, 1536),
        ("cascadelake", 8, 1536),
        ("spr", 32, 1024),
        ("zen", 64, 512),
        ("zen5", 64, 2048),
        ("graviton2", 48, 1280),
        ("kunpeng920", None, None),
    ],
)
def test_find(name: str, entries: int | None, second: int | None) -> None:
    cpu = find(name)
    assert (cpu.itlb_2m, cpu.l2_2m and cpu.l2_2m.entries) == (entries, second)


def test_find_lists_what_it_knows() -> None:
    with pytest.raises(UsageError, match=r"unknown CPU \w+; known are ivybridge, .*, zen5, .*kunpeng920"):
        find("z80")


def test_identify() -> None:
    assert identify(INTEL, 6, 0x55) is find("skylake")
    assert identify(AMD, 0x19, 0x61) is find("zen4")
    assert identify(INTEL, 6, 0xFF) is None
    assert identify("GenuineIotel", 6, 0x55) is None
    assert identify_midr(0x413FD0C1) is find("neoverse-n1")
    assert identify_midr(0x481FD010) is find("kunpeng920")
    assert identify_midr(0) is None


# Files as other machines have them, which this one does not: a fake root.
@pytest.mark.parametrize(
    ("files", "name"),
    [
        (
            {"sys/devices/system/cpu/cpu0/regs/identification/midr_el1": "0x00000000410fd4f1\n"},
            "neoverse-v2",
        ),
        (
            {"proc/cpuinfo": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\nprocessor\t: 1\n"},
            "neoverse-n1",
        ),
        (
            {"proc/cpuinfo": "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"},
            "sapphirerapids",
        ),
        ({"proc/cpuinfo": "vendor_id\t: GenuineIntel\ncpu family\t: six\nmodel\t\t: \x00\n"}, None),
        ({"proc/cpuinfo": "isa : rv64imafdc\n"}, None),
        ({}, None),
    ],
)
def test_from_files(files: dict[str, str], name: str | None, tmp_path: Path) -> None:
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    result = processor.from_files(str(tmp_path))
    assert (result.cpu.name if result.cpu else None, result.tlbs) == (name, None)


@pytest.mark.parametrize(
    ("text", "brand"),
    [
        (
            (
                "system type\t\t: generic-loongson-machine\n\nprocessor\t\t: 0\nCPU Family\t\t: Loongson-64bit\n"
                "Model Name\t\t: Loongson-3A6000\n\nprocessor\t\t: 1\nModel Name\t\t: other\n"
            ),
            "Loongson-3A6000",
        ),
        (
            "processor\t: 0\ncpu\t\t: POWER9 (architected), altivec supported\n",
            "POWER9 (architected), altivec supported",
        ),
        (
            "processor\t: 0\nhart\t\t: 0\nisa\t\t: rv64imafdc\nmmu\t\t: sv39\nuarch\t\t: sifive,u74-mc\n",
            "sifive,u74-mc",
        ),
        ("processor\t: 0\nhart\t\t: 0\nisa\t\t: rv64imafdc\n", ""),
        ("vendor_id       : IBM/S390\n# processors    : 1\n", "IBM/S390"),
    ],
)
def test_brand_from_files(text: str, brand: str, tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(text)
    result = processor.from_files(str(tmp_path))
    assert (result.brand, result.cpu) == (brand, None)
