"""The record of what was seen on this machine.  None and empty mean that it could not be seen."""

from dataclasses import dataclass, field

from hugealign.processor.local import Processor


@dataclass(frozen=True, slots=True)
class Place:
    """What came of the experiment in one directory.

    *huge* of *windows* windows of a new file became huge, None if it could not be tried, for the *reason*.
    *tried_in* is another directory of the same file system, if *path* cannot be written to.
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
    """*path* of perf or empty; *counts* whether it can count iTLB misses, None if that could not be tried."""

    path: str
    paranoid: int | None
    counts: bool | None
    said: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that `checks` judges.  Text is untrusted.

    *config* holds the kernel's options (``TRANSPARENT_HUGEPAGE`` -> ``y``).  *thp*, *khugepaged* and *sizes* hold the
    files of /sys/kernel/mm/transparent_hugepage by name, with the chosen word of those that offer several.
    *vendor* holds the files of vendor kernels by path.  *memory_limit* and *memory_used* are of our control group, in
    bytes; *free_blocks* counts the free pieces of memory that can hold a huge page.  *tools*: name -> first line of
    its version.
    """

    release: str
    machine: str
    page_size: int
    sysfs: bool
    procfs: bool
    python: str
    config: dict[str, str] | None = None
    config_from: str = ""
    thp: dict[str, str] = field(default_factory=dict)
    khugepaged: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, str] = field(default_factory=dict)
    vendor: dict[str, str] = field(default_factory=dict)
    boot: str = ""
    thp_disabled: bool | None = None
    places: tuple[Place, ...] = ()
    glibc: tuple[int, int] | None = None
    tunable: str | None = None
    musl: str = ""
    processor: Processor | None = None
    memory_limit: int | None = None
    memory_used: int | None = None
    free_blocks: int | None = None
    perf: Perf | None = None
    tools: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
