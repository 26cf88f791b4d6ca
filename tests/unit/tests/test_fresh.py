"""What `make test-fresh` reads of pytest's results and of docs/install.md, and the page that it writes."""

from pathlib import Path

import pytest

from tests import debian, fresh
from tests.support import ROOT

_RESULTS = """\
<testsuites><testsuite>
<testcase classname="tests.build.test_manual" name="test_every_block_says_how_it_is_run[docs/map.md:4]"/>
<testcase classname="tests.build.test_manual" name="test_run[docs/map.md:4]"/>
<testcase classname="tests.build.test_manual" name="test_run[docs/fleet.md:4]"><failure message="1"/></testcase>
<testcase classname="tests.build.test_manual" name="test_run[docs/trace.md:8]"><skipped message="no QEMU"/></testcase>
<testcase classname="tests.build.test_samples" name="test_samples[docs/verify.md]"/>
<testcase classname="tests.live.test_tour" name="test_every_command_of_the_tour[two]"><error message="1"/></testcase>
</testsuite></testsuites>
"""


def test_results(tmp_path: Path) -> None:
    (tmp_path / "results.xml").write_text(_RESULTS)
    assert fresh.tested(tmp_path / "results.xml") == {
        "docs/map.md:4": "typed",
        "docs/fleet.md:4": "failed",
        "docs/trace.md:8": "not: no QEMU",
        "docs/verify.md: samples": "typed",
        "README.md: the tour, two": "failed",
    }


def test_a_run_of_no_test_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "results.xml").write_text("<testsuites><testsuite/></testsuites>")
    with pytest.raises(debian.UnavailableError, match="no page was typed"):
        fresh.tested(tmp_path / "results.xml")


def test_packages_are_those_of_the_page() -> None:
    needed = fresh.needed()
    assert {"linux-perf", "qemu-user", "clang-19", "g++"} <= set(needed)
    page = (ROOT / "docs" / "install.md").read_text()
    assert all(f"`{name}`" in page for name in needed)


def test_page() -> None:
    versions = dict.fromkeys((name for name, _ in fresh.VERSIONS), "1.2")
    found = {"docs/map.md:4": "typed", "docs/map.md:9": "failed", "docs/trace.md:8": "not: no QEMU"}
    record = {"day": "2026-11-23", "commit": "abc", "versions": versions, "found": found}
    text = fresh.page({"trixie": record, "bookworm": record | {"found": {"docs/map.md:4": "typed"}}})
    assert "\n| | Debian 12 | Debian 13 |\n" in text
    assert "\n| gcc | 1.2 | 1.2 |\n" in text
    assert "\n| docs/map.md | 1 of 1 | 1 of 2, 1 failed |\n" in text
    assert "\n| docs/trace.md | -- | 0 of 1 |\n" in text
    assert text.endswith("\n- Debian 13, docs/map.md:9: failed\n- Debian 13, docs/trace.md:8: no QEMU\n")
