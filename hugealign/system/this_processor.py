"""Ask the processor that we run on for its identity."""

import contextlib
import ctypes
import mmap
import os
import struct

from hugealign.io.descriptors import using
from hugealign.io.libc import MAP_FAILED, libc
from hugealign.records import Record
from hugealign.system import cpuid
from hugealign.system.cpuid import Leaf, Registers, Tlbs
from hugealign.system.processors import ARM64, Cpu, identify, identify_midr

# void read(uint32_t leaf, uint32_t subleaf, uint32_t registers[4]) for the x86-64 System V ABI, position-independent.
_READ = bytes.fromhex(
    "f30f1efa"  # endbr64
    "53"  # push rbx: CPUID writes it, and it is the caller's
    "4989d0"  # mov r8, rdx
    "89f8"  # mov eax, edi
    "89f1"  # mov ecx, esi
    "0fa2"  # cpuid
    "418900"  # mov [r8], eax
    "41895804"  # mov [r8+4], ebx
    "41894808"  # mov [r8+8], ecx
    "4189500c"  # mov [r8+12], edx
    "5b"  # pop rbx
    "c3"  # ret
)
#: The fields of /proc/cpuinfo that name a processor: on x86, LoongArch, POWER, RISC-V and s390x.
_BRANDS = ("model name", "Model Name", "cpu", "uarch", "vendor_id")
_MIDR = "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1"


class Unavailable(Exception):  # noqa: N818 - says a fact
    """Raised by a method of asking that does not work here."""


class Processor(Record):
    """The processor: *brand* for people, *cpu* its row of the table, *tlbs* its own report.

    *tlbs* is None if the processor has no such report.  *brand* is untrusted text: a hypervisor chooses it.
    """

    brand: str
    cpu: Cpu | None
    tlbs: Tlbs | None


def read(machine: str | None = None, root: str = "") -> Processor:
    """Return what is known about this processor; *machine* is as in ``uname -m``.

    This executes CPUID if there is one; *root* replaces / in tests.  A process can be forbidden that (arch_prctl(2),
    ARCH_SET_CPUID), and then dies, so call it in a child.
    """
    machine = machine or os.uname().machine
    if machine == "x86_64":
        with contextlib.suppress(Unavailable, OSError):
            leaf = executed()
            who = cpuid.identity(leaf)
            return Processor(who.brand, identify(who.vendor, who.family, who.model), cpuid.tlbs(leaf))
    return from_files(root)


def from_files(root: str = "") -> Processor:
    """Return the processor by MIDR_EL1 or /proc/cpuinfo; for tests, *root* replaces /."""
    fields = _cpuinfo(root)
    brand = next((fields[field] for field in _BRANDS if field in fields), "")
    with contextlib.suppress(OSError, ValueError), open(root + _MIDR, encoding="utf-8") as file:
        return Processor(brand, identify_midr(int(file.read(64), 16)), None)
    with contextlib.suppress(KeyError, ValueError):
        cpu = identify(fields["vendor_id"], int(fields["cpu family"]), int(fields["model"]))
        return Processor(brand, cpu, None)
    with contextlib.suppress(KeyError, ValueError):
        cpu = identify(ARM64, int(fields["CPU implementer"], 16), int(fields["CPU part"], 16))
        return Processor(brand, cpu, None)
    return Processor(brand, None, None)


def executed() -> Leaf:
    """Return a function that executes CPUID.  Raises Unavailable if the system does not let us run our own code."""
    if struct.calcsize("P") != 8:
        raise Unavailable
    # A file in memory, mapped read-only: it is never writable and executable at once, which SELinux (execmem) and
    # systemd (MemoryDenyWriteExecute=) would refuse.
    with using(os.memfd_create("hugealign-cpuid")) as fd:
        os.write(fd, _READ)
        address = libc().mmap(None, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, fd, 0)
    if address == MAP_FAILED:
        raise Unavailable
    read = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(address)

    def leaf(number: int, subleaf: int) -> Registers:
        registers = (ctypes.c_uint32 * 4)()
        read(number, subleaf, registers)
        return (registers[0], registers[1], registers[2], registers[3])

    return leaf


def _cpuinfo(root: str) -> dict[str, str]:
    """Return the fields of the first processor in /proc/cpuinfo, empty without the file.

    LoongArch's begins with a block about the system.
    """
    fields: dict[str, str] = {}
    with (
        contextlib.suppress(OSError),
        open(f"{root}/proc/cpuinfo", encoding="utf-8", errors="replace") as file,
    ):
        for line in file.read(1 << 16).split("\n"):
            key, colon, value = line.partition(":")
            if not colon and "processor" in fields:
                break
            fields.setdefault(key.strip(), value.strip())
    return fields
