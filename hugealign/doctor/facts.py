"""The record of the facts about this machine.  None and empty mean unknown."""

from dataclasses import dataclass, field

from hugealign.system.this_processor import Processor

THP = "/sys/kernel/mm/transparent_hugepage"
COMPILERS = ("cc", "gcc", "g++", "clang", "clang++")
LINKERS = ("ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold", "ld.wild")


@dataclass(frozen=True, slots=True)
class Place:
    """The result of the experiment in one directory.

    *huge* of *windows* windows of a new file became huge; None if it could not be tried, with the *reason*.  *tried_in*
    is another directory of the same file system, if *path* cannot be written to.
    """

    path: str
    mount_point: str = ""
    file_system: str = ""
    tried_in: str = ""
    windows: int = 0
    huge: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Perf:
    """*path* of perf, or empty; *counts*: whether it can count iTLB misses, None if that could not be tried."""

    path: str
    paranoid: int | None
    counts: bool | None
    said: str = ""


@dataclass(frozen=True, slots=True)
class Kernel:
    """The kernel.  *config* has its options (``TRANSPARENT_HUGEPAGE`` -> ``y``), read from *config_from*."""

    release: str
    machine: str
    page_size: int
    sysfs: bool = True
    procfs: bool = True
    config: dict[str, str] | None = None
    config_from: str = ""


@dataclass(frozen=True, slots=True)
class Thp:
    """Transparent huge pages.

    *modes*, *khugepaged* and *sizes* have the files of /sys/kernel/mm/transparent_hugepage by name, reduced to the
    chosen word if a file offers several.  *boot* has the relevant boot parameters.  *disabled* is the answer of
    PR_GET_THP_DISABLE for this process.
    """

    modes: dict[str, str] = field(default_factory=dict)
    khugepaged: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, str] = field(default_factory=dict)
    boot: str = ""
    disabled: int | None = None


@dataclass(frozen=True, slots=True)
class Loader:
    """The dynamic linkers; *tunable* is glibc's line about its own huge pages, empty if it has none."""

    glibc: tuple[int, int] | None = None
    tunable: str | None = None
    musl: str = ""


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """The *limit* of our control group and the amount *used*, in bytes; each of *free_blocks* can hold a huge page."""

    limit: int | None = None
    used: int | None = None
    free_blocks: int | None = None


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """All facts that `checks` judges.  Text is untrusted.  *tools*: name -> first line of its version.

    *no_mounts* says why this process may not mount copies; empty if it may, None if that could not be tried.
    """

    kernel: Kernel
    python: str
    thp: Thp = field(default_factory=Thp)
    loader: Loader = field(default_factory=Loader)
    memory: MemoryFacts = field(default_factory=MemoryFacts)
    places: tuple[Place, ...] = ()
    no_mounts: str | None = None
    processor: Processor | None = None
    perf: Perf | None = None
    tools: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
