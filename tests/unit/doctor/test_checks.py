"""`hugealign doctor` without a machine: facts in, checks out."""

import dataclasses
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from hugealign import settings
from hugealign.cli.output import plain
from hugealign.diagnosis import documents
from hugealign.diagnosis.values import Diagnosis
from hugealign.doctor import checks, probes, report
from hugealign.doctor.checks import NOTE, OBSTACLE, OK, UNKNOWN, Check, MachineFacts, Place
from hugealign.system import children, kernel
from hugealign.system.budget import Reported
from hugealign.system.textcosts import Point, Range, TextCosts
from tests.documents import check
from tests.support import ROOT

GOOD = MachineFacts(
    "6.18.1",
    "x86_64",
    2 << 20,
    modes={"enabled": "madvise"},
    free=200 << 20,
    processor=Reported(64, 64, "zen4", "Some CPU"),
    places=(Place(".", "/", "ext4", "", 2, 2),),
)
COSTS = TextCosts(
    0.3, Range(5e3, 6e3, 9e3), None, 65536, Range(0.0, 0.0, 0.0), 0.0, 512, Range(3.0, 8.0, 12.0), 0.25,
    (Point(16, 1.0, 1.0),), (Point(2, 1.0, 1.5),),
)  # fmt: skip
NO_FOLIOS = Place("/x", "/mnt", "btrfs", "", 2, 0)
REFUSED = Diagnosis("process.no-mounts", "", {"call": "unshare", "error": "EPERM"})


def result(**changes: Any) -> dict[str, Check]:
    """What is found where the facts are GOOD but for *changes*."""
    return {item.diagnosis.code: item for item in checks.check(dataclasses.replace(GOOD, **changes))}


def test_nothing_in_the_way() -> None:
    every = list(result().values())
    assert {item.status for item in every} == {OK}
    assert checks.exit_status(every) == 0
    assert plain(report.text(every, "utf-8")).endswith("\nnothing prevents huge text\n")


@pytest.mark.parametrize(
    ("changes", "code", "status", "argv"),
    [
        ({"modes": {}}, "machine.no-thp", OBSTACLE, None),
        ({"modes": {"enabled": "never"}}, "machine.thp", OK, None),
        ({"costs": COSTS}, "machine.text-costs", OK, None),
        ({"costs": dataclasses.replace(COSTS, certain=False)}, "machine.text-costs", NOTE, None),
        ({"loader": "glibc 2.31"}, "machine.loader", NOTE, None),
        ({"disabled": True}, "process.thp-disabled", OBSTACLE, "hugealign run --"),
        ({"disabled": False}, "process.thp-allowed", OK, None),
        ({"no_mounts": REFUSED}, "process.no-mounts", NOTE, None),
        ({"no_mounts": REFUSED, "filtered": True}, "process.filtered", NOTE, None),
        ({"missing": ("cc",)}, "machine.no-compiler", NOTE, ""),
        ({"missing": ("perf",)}, "machine.no-perf", NOTE, ""),
        ({"places": (NO_FOLIOS,)}, "file-system.no-huge-pages", OBSTACLE, "hugealign run --"),
        ({"places": (NO_FOLIOS,), "no_mounts": REFUSED}, "file-system.no-huge-pages", OBSTACLE, "run --how=copy --"),
        ({"places": (dataclasses.replace(NO_FOLIOS, huge=1),)}, "thp.partial", OBSTACLE, ""),
        ({"places": (NO_FOLIOS,), "free": 0}, "memory.fragmented", OBSTACLE, "echo 1 >/proc/sys/vm/compact_memory"),
        (
            {"places": (Place("/a", "/a b", "tmpfs", "", 2, 0),)},
            "file-system.small-tmpfs",
            OBSTACLE,
            "mount -o remount,huge=always /a b",
        ),
        (
            {"places": (Place("/a", "/a", "tmpfs", "", 2, 0),), "modes": {"shmem_enabled": "deny"}},
            "thp.shmem-denied",
            OBSTACLE,
            "echo never >/sys/kernel/mm/transparent_hugepage/shmem_enabled",
        ),
        ({"places": (Place("/x", error="EACCES"),)}, "file-system.not-tried", UNKNOWN, None),
        ({"limit": 6 << 20}, "memory.limit", OBSTACLE, ""),
        ({"free": 0}, "memory.free", OK, None),
        ({"variables": {"HUGEALIGN_CHEKC": "1"}}, "setting.unknown", OBSTACLE, ""),
        ({"variables": {"HUGEALIGN_CHECK": "no"}}, "setting.bad-value", OBSTACLE, ""),
        ({"variables": {"HUGEALIGN_PAGE_SIZE": "3M"}}, "setting.bad-value", OBSTACLE, ""),
        ({"variables": {"HUGEALIGN_DISABLE": "1"}}, "setting.disabled", OBSTACLE, ""),
    ],
)
def test_check(changes: dict[str, Any], code: str, status: str, argv: str | None) -> None:
    item = result(**changes)[code]
    assert item.status == status
    remedy = item.diagnosis.remedy
    assert (remedy is None) == (argv is None)
    assert remedy is None or " ".join(remedy.argv).endswith(argv or "")


@pytest.mark.parametrize(
    "changes",
    [
        {"modes": None},
        {"free": None},
        {"processor": None},
        {"limit": 1 << 30},
        {"variables": {"HUGEALIGN_ONLY": "a"}},
    ],
)
def test_what_cannot_be_seen_or_does_not_matter_is_in_nobody_s_way(changes: dict[str, Any]) -> None:
    assert {item.status for item in result(**changes).values()} == {OK}


def test_a_filter_that_prevents_nothing_is_not_mentioned() -> None:
    assert {item.status for item in result(filtered=True).values()} == {OK}


def test_exit_status() -> None:
    unknown, bad = Place("/x", error="EIO"), NO_FOLIOS
    assert checks.exit_status(list(result(places=(unknown,)).values())) == 3
    assert checks.exit_status(checks.check(dataclasses.replace(GOOD, places=(unknown, bad)))) == 1


def test_json_follows_its_schema() -> None:
    every = result(places=(NO_FOLIOS,), no_mounts=REFUSED, variables={"HUGEALIGN_X": ""})
    document = check(documents.text(report.Report([*every.values()])))
    assert document["summary"]["obstacle"] == 2
    assert sum(document["summary"].values()) == len(document["checks"])


def test_hostile_text_is_escaped() -> None:
    evil = "\x1b[31m\n✗ forged"
    every = result(
        places=(Place(evil, "/", evil, evil, 2, 2),), processor=Reported(0, 0, "", evil), loader=evil, release=evil,
        modes={"enabled": evil}, variables={f"HUGEALIGN_{evil}": evil},
    )  # fmt: skip
    text = plain(report.text(list(every.values()), "utf-8"))
    assert "\x1b" not in text
    assert "\n✗ forged" not in text
    assert "\x1b" not in documents.text(report.Report(list(every.values())))


@pytest.mark.parametrize(("encoding", "mark"), [("utf-8", "✗"), ("ascii", "x"), ("latin-1", "x"), ("no-such", "x")])
def test_marks(encoding: str, mark: str) -> None:
    every = checks.check(dataclasses.replace(GOOD, places=(NO_FOLIOS, Place("/y", error="EIO"))))
    written = plain(report.text(every, encoding))
    assert re.search(rf"\n{mark} file-system  /x: .*\n {{15}}run: hugealign run", written)
    assert re.search(r"\n\? file-system  /y: .*\n", written)
    assert written.endswith("\n1 problem prevents huge text, 1 not checked\n")


def test_the_list_of_variables_is_complete() -> None:
    read = set()
    files = [ROOT / "README.md", *(ROOT / "bin").iterdir()]
    files += [p for p in (ROOT / "hugealign").rglob("*") if p.is_file() and p.suffix in (".py", ".sh", "")]
    for path in files:
        if path.parent.name != "doctor":
            read |= set(re.findall(r"(?<![_A-Z])HUGEALIGN_[A-Z][A-Z_]*", path.read_text(encoding="utf-8")))
    assert read == set(settings.VARIABLES)


@pytest.mark.parametrize(
    ("library", "loader"),
    [
        ("glibc 2.36", ""),
        ("glibc 2.35", ""),
        ("glibc 2.35.9000", ""),
        ("glibc 2.34", "glibc 2.34"),
        ("glibc 2.9", "glibc 2.9"),
        ("musl", "musl"),
        ("", ""),
    ],
)
def test_loader(library: str, loader: str) -> None:
    assert probes.unaligned_loader(library) == loader


def test_children_that_hang_die_or_never_stop_talking() -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def fail() -> None:
        raise ValueError

    def hang() -> None:
        time.sleep(1000)

    def parent() -> None:
        os.fork()
        hang()

    good, dead, failed, stuck = (children.function(work) for work in (lambda: b"good", die, fail, hang))
    talking, asleep = (children.function(work) for work in (lambda: b"1" * (1 << 20), parent))
    children.collect([good, dead, failed, stuck, talking, asleep], 0.5)
    assert (good.value, dead.value, failed.value, stuck.value) == (b"good", None, None, None)
    assert dead.status == -signal.SIGKILL
    assert len(talking.output) <= 2 << 16
    assert asleep.status is None
    for child in (good, dead, failed, stuck, talking, asleep):
        with pytest.raises(ChildProcessError):
            os.waitpid(child.pid, os.WNOHANG)


def test_huge_pages_too_large_to_try(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernel, "huge_page_size", lambda: 512 << 20)
    assert probes.trial(str(tmp_path))["error"] == "EFBIG"


def test_costs_in_one_line_and_as_a_curve() -> None:
    (line,) = (
        line for line in report.text(list(result(costs=COSTS).values()), "ascii").splitlines() if "fault" in line
    )
    assert "a page fault of text takes 5.0 to 9.0 " in line
    assert "a page walk 3 to 12 ns if more than 512 pages run, a first-level TLB miss 0.0 ns" in line
    assert len(report.curve(COSTS)) == 4
