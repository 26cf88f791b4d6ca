"""`hugealign doctor` without a machine: facts in, findings out."""

import dataclasses
import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from hugealign import settings
from hugealign.doctor import checks, probes, report
from hugealign.doctor.checks import NOTE, OBSTACLE, OK, UNKNOWN, Condition
from hugealign.doctor.facts import Kernel, Loader, MachineFacts, MemoryFacts, Perf, Place, Thp
from hugealign.system import children, memory
from hugealign.system.cpuid import Tlbs
from hugealign.system.processors import Tlb, find
from hugealign.system.this_processor import Processor
from tests.support import ROOT

GOOD = MachineFacts(
    kernel=Kernel("6.18.1", "x86_64", 2 << 20, config={"TRANSPARENT_HUGEPAGE": "y"}, config_from="/proc/config.gz"),
    python="3.11.2",
    thp=Thp({"enabled": "madvise", "defrag": "madvise"}, disabled=0),
    loader=Loader((2, 36), ""),
    memory=MemoryFacts(free_blocks=100),
    places=(Place(".", "/", "ext4", "", 2, 2),),
    no_mounts="",
    processor=Processor("Some CPU", find("zen4"), Tlbs(l1_2m=Tlb(64)), guest=False, how="CPUID"),
    perf=Perf("/usr/bin/perf", 2, counts=True),
    tools={"gcc": "gcc (Debian 12.2.0-14) 12.2.0", "ld": "GNU ld 2.40"},
)
NO_FOLIOS = Place("/x", "/mnt", "btrfs", "", 2, 0)


def findings(**changes: Any) -> dict[str, Condition]:
    """What is found where the facts are GOOD but for *changes*, by the names of the fields of groups or of Facts."""
    facts = GOOD
    for name, value in changes.items():
        group = next((g for g in ("kernel", "thp", "loader", "memory") if hasattr(getattr(GOOD, g), name)), None)
        if group:
            facts = dataclasses.replace(facts, **{group: dataclasses.replace(getattr(facts, group), **{name: value})})
        else:
            facts = dataclasses.replace(facts, **{name: value})
    return {f.id: f for f in checks.check(facts)}


def test_nothing_in_the_way() -> None:
    found = list(findings().values())
    assert {f.status for f in found} == {OK, NOTE}
    assert checks.exit_status(found) == 0
    assert report.text(found, "utf-8").endswith("\nnothing in the way of huge text\n")


@pytest.mark.parametrize(
    ("changes", "name", "status", "words"),
    [
        ({"release": "5.4.0-1"}, "kernel.release", OBSTACLE, "before 5.10"),
        ({"no_mounts": ""}, "place.mounts", OK, "on any file system"),
        ({"no_mounts": "no right"}, "place.mounts", NOTE, "(no right)"),
        ({"no_mounts": None}, "place.mounts", UNKNOWN, "could not be tried"),
        ({"release": "odd"}, "kernel.release", OK, "odd"),
        ({"modes": {}, "config": {"EXT4_FS": "y"}}, "kernel.thp", OBSTACLE, "no transparent huge pages"),
        ({"modes": {}, "config": None}, "kernel.thp", OBSTACLE, "no transparent huge pages"),
        ({"modes": {}, "config": None, "sysfs": False}, "kernel.thp", UNKNOWN, "neither /sys"),
        ({"modes": {}, "sysfs": False}, "kernel.thp", OK, "built in"),
        ({"config": None}, "kernel.config", UNKNOWN, "no readable kernel configuration"),
        ({"config": {"READ_ONLY_THP_FOR_FS": "y"}}, "kernel.config", OK, "on any file system"),
        ({"modes": {"enabled": "never"}}, "thp.modes", OK, "enabled never"),
        ({"disabled": 1}, "thp.process", OBSTACLE, "PR_SET_THP_DISABLE"),
        ({"disabled": 3}, "thp.process", NOTE, "huge all the same"),
        ({"disabled": None}, "thp.process", UNKNOWN, "cannot be asked"),
        ({"places": (NO_FOLIOS,)}, "place.folios", OBSTACLE, "0 of 2 windows"),
        ({"places": (Place("/x", reason="cannot write there"),)}, "place.folios", UNKNOWN, "cannot write there"),
        ({"limit": 6 << 20, "used": 1 << 20}, "memory.cgroup", OBSTACLE, "6.0 MiB"),
        ({"limit": 1 << 30}, "memory.cgroup", OK, "1.0 GiB"),
        ({"free_blocks": 0}, "memory.free_blocks", NOTE, "has to move memory"),
        ({"free_blocks": None}, "memory.free_blocks", UNKNOWN, "buddyinfo"),
        ({"glibc": (2, 34)}, "loader.glibc", NOTE, "without regard"),
        ({"glibc": (2, 35)}, "loader.glibc", OK, "by their alignment"),
        ({"glibc": None}, "loader.glibc", UNKNOWN, "no loader"),
        ({"glibc": None, "musl": "1.2.3"}, "loader.musl", NOTE, "musl 1.2.3"),
        ({"tunable": "glibc.elf.thp: 0 (min: 0, max: 1)"}, "loader.thp", OK, "glibc.elf.thp: 0"),
        ({"processor": None}, "cpu.itlb", UNKNOWN, "cannot be asked"),
        ({"processor": Processor("New", None, None, False, "x")}, "cpu.itlb", UNKNOWN, "not in the table"),
        ({"processor": Processor("", find("spr"), None, False, "x")}, "cpu.itlb", OK, "32 iTLB entries"),
        ({"processor": Processor("", find("spr"), Tlbs(l1_2m=Tlb(9)), False, "x")}, "cpu.itlb", OK, " 9 iTLB entries"),
        ({"processor": Processor("", find("spr"), Tlbs(l1_2m=Tlb(9)), False, "x")}, "cpu.table", NOTE, "32 entries"),
        ({"processor": Processor("", find("ivb"), None, False, "x")}, "cpu.stlb", NOTE, "more than 8 hot windows"),
        ({"processor": Processor("V", find("zen4"), None, True, "x")}, "cpu.guest", NOTE, "virtual machine"),
        ({"perf": None}, "perf.counters", NOTE, "no perf"),
        ({"perf": Perf("/perf", 3, None, "Access denied")}, "perf.counters", NOTE, "may not count"),
        ({"perf": Perf("/perf", 2, False)}, "perf.counters", NOTE, "no hardware counter"),
        ({"tools": {}}, "tools.linkers", NOTE, "no linkers"),
        ({"tools": {"cc": "?"}}, "tools.compilers", OK, "cc of unknown version"),
        ({"variables": {"HUGEALIGN_CHEKC": "1"}}, "environment.unknown", OBSTACLE, "HUGEALIGN_CHEKC is not a variable"),
        ({"variables": {"HUGEALIGN_CHECK": "no"}}, "environment.value", OBSTACLE, "not one of off, warn, error"),
        ({"variables": {"HUGEALIGN_PAGE_SIZE": "3M"}}, "environment.value", OBSTACLE, "not a huge page size"),
        ({"variables": {"HUGEALIGN_DISABLE": "yes"}}, "environment.value", OBSTACLE, "not 0 or 1"),
        ({"variables": {"HUGEALIGN_DISABLE": "1"}}, "environment.disabled", OBSTACLE, "without hugealign"),
        ({"variables": {"HUGEALIGN_ONLY": "a:b"}}, "environment.set", NOTE, "HUGEALIGN_ONLY=a:b"),
    ],
)
def test_finding(changes: dict[str, Any], name: str, status: str, words: str) -> None:
    found = findings(**changes)[name]
    assert found.status == status
    assert words in found.message
    assert status != OBSTACLE or found.mend


@pytest.mark.parametrize(
    ("changes", "mend"),
    [
        ({"places": (NO_FOLIOS,)}, "hugealign run -- COMMAND, or for a service: sudo hugealign enable UNIT"),
        ({"places": (NO_FOLIOS,), "no_mounts": "why"}, "hugealign run --how=copy -- COMMAND"),
        ({"places": (NO_FOLIOS,), "no_mounts": None}, "hugealign run --how=copy -- COMMAND"),
        ({"places": (dataclasses.replace(NO_FOLIOS, huge=1),)}, "compact_memory"),
        ({"places": (NO_FOLIOS,), "free_blocks": 0}, "compact_memory"),
        (
            {"places": (Place("/a", "/a b", "tmpfs", "", 2, 0),)},
            "sudo mount -o remount,huge=always '/a b'",
        ),
    ],
)
def test_mend_of_a_place(changes: dict[str, Any], mend: str) -> None:
    assert mend in findings(**changes)["place.folios"].mend


def test_exit_status() -> None:
    unknown, bad = Place("/x", reason="why"), NO_FOLIOS
    assert checks.exit_status(list(findings(places=(unknown,)).values())) == 3
    assert checks.exit_status(checks.check(dataclasses.replace(GOOD, places=(unknown, bad)))) == 1
    assert checks.exit_status(list(findings(config=None, free_blocks=None).values())) == 0


def test_hostile_text_is_escaped() -> None:
    evil = "\x1b[31m\n✗ forged"
    found = findings(
        places=(Place(evil, "/", evil, "", 2, 0),),
        processor=Processor(evil, None, None, False, evil),
        tools={"cc": evil},
        variables={f"HUGEALIGN_{evil}": evil},
        tunable=evil,
        musl=evil,
        perf=Perf(evil, 1, False, evil),
        modes={"enabled": evil},
        release=evil,
    )
    for finding in found.values():
        assert "\x1b" not in finding.message + finding.mend + json.dumps(finding.data)
        assert "\n" not in finding.message + finding.mend
        assert all(str(value).isprintable() for value in finding.data.values())


@pytest.mark.parametrize(("encoding", "mark"), [("utf-8", "✗"), ("ascii", "x"), ("latin-1", "x"), ("no-such", "x")])
def test_marks(encoding: str, mark: str) -> None:
    found = list(findings(places=(NO_FOLIOS,), config=None).values())
    written = report.text(found, encoding)
    assert f"\n{mark} place   /x: btrfs: 0 of 2 windows" in written
    assert re.search(r"\n\? kernel  .*\n", written)
    assert written.endswith("\n1 in the way of huge text, 1 not seen\n")
    # The line after an obstacle is its mend.
    assert re.search(rf"\n{mark} place .*\n +fix: hugealign run", written)


def test_the_list_of_variables_is_complete() -> None:
    read = set()
    files = [ROOT / "README.md", *(ROOT / "bin").iterdir()]
    files += [p for p in (ROOT / "hugealign").rglob("*") if p.is_file() and p.suffix in (".py", ".sh", "")]
    for path in files:
        if path.parent.name != "doctor":
            read |= set(re.findall(r"(?<![_A-Z])HUGEALIGN_[A-Z][A-Z_]*", path.read_text(encoding="utf-8")))
    assert read == set(settings.VARIABLES)


def made_tree(root: Path, files: dict[str, str]) -> str:
    for path, text in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return str(root)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("ld.so (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.\n", (2, 36)),
        ("ld.so (GNU libc) stable release version 2.40.\n", (2, 40)),
    ],
)
def test_glibc_version(said: str, version: tuple[int, int]) -> None:
    assert probes.glibc_version(said) == version


def test_tunable() -> None:
    listed = "glibc.rtld.nns: 0x4 (min: 0x1, max: 0x10)\nglibc.elf.thp: 0 (min: 0, max: 1)\n"
    assert probes.tunable(listed) == "glibc.elf.thp: 0 (min: 0, max: 1)"
    assert probes.tunable("glibc.rtld.nns: 0x4\n") == ""
    assert probes.tunable("unrecognized option") is None


@pytest.mark.parametrize(
    ("said", "counts", "first"),
    [
        ("123,,iTLB-load-misses,90,100.00,,\n", True, "123,,iTLB-load-misses,90,100.00,,"),
        ("<not supported>,,iTLB-load-misses,0,100.00,,\n", False, "<not supported>,,iTLB-load-misses,0,100.00,,"),
        (
            "Error:\nNo supported events found.\nThe iTLB-load-misses event is not supported.\n",
            False,
            "No supported events found.",
        ),
        (
            "Error:\nAccess to performance monitoring is limited.\n",
            None,
            "Access to performance monitoring is limited.",
        ),
        ("", None, ""),
    ],
)
def test_what_perf_says(said: str, counts: bool | None, first: str) -> None:
    """Versions 6.1 and 7.2."""
    assert probes.counted(said) == (counts, first)


def test_damaged_configuration(tmp_path: Path) -> None:
    made_tree(tmp_path, {"/proc/config.gz": "not gzip", "/boot/config-1.2": "CONFIG_A=y\n"})
    assert probes.kernel_config(str(tmp_path), "1.2") == ({"A": "y"}, "/boot/config-1.2")
    assert probes.kernel_config(str(tmp_path), "3.4") == (None, "")


def test_children_that_hang_die_or_never_stop_talking() -> None:
    def die() -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b"not reached"

    def fail() -> bytes:
        raise ValueError

    def hang() -> bytes:
        time.sleep(1000)
        return b"not reached"

    good, dead, failed, stuck = (children.function(work) for work in (lambda: b"good", die, fail, hang))
    talking, ended, asleep = (
        children.command(["sh", "-c", text]) for text in ("yes", "echo 1; exit 3", "sleep 1000 & wait")
    )
    assert talking
    assert ended
    assert asleep
    children.collect([good, dead, failed, stuck, talking, ended, asleep], 0.5)
    assert (good.output, dead.output, failed.output, stuck.output) == (b"good", b"", b"", b"")
    assert dead.status == -signal.SIGKILL
    assert len(talking.output) <= 2 << 16
    assert (ended.output, ended.status, asleep.status) == (b"1\n", 3, None)
    assert children.command(["/no/such/program"]) is None
    for child in (good, dead, failed, stuck, talking, ended, asleep):
        with pytest.raises(ChildProcessError):
            os.waitpid(child._pid, os.WNOHANG)


def test_a_file_system_without_nameless_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without the flag the kernel answers EISDIR, as file systems that do not know it make it answer.
    monkeypatch.setattr(os, "O_TMPFILE", 0)
    fd, place = probes._scratch(str(tmp_path), tmp_path.stat().st_dev)
    try:
        assert place == str(tmp_path)
        assert os.fstat(fd).st_nlink == 0
        assert list(tmp_path.iterdir()) == []
    finally:
        os.close(fd)


def test_huge_pages_too_large_to_try(tmp_path: Path) -> None:
    assert "512 MiB, too much" in json.loads(probes._trial(str(tmp_path), 512 << 20))["reason"]


def test_memory_used(tmp_path: Path) -> None:
    # A made-up control group: setting a real one up needs a hierarchy of our own.
    ours = tmp_path / "ours"
    ours.mkdir()
    groups = [str(tmp_path), str(ours)]
    assert memory.used(groups) is None
    (tmp_path / "memory.current").write_text("1000\n")
    assert memory.used(groups) == 1000
    (ours / "memory.usage_in_bytes").write_text("300\n")
    assert memory.used(groups) == 300
