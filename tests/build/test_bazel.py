"""Debian's Bazel: a program that depends on //bazel:text, linked in the sandbox, and the test that checks it."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.link.bulk import bulk_source
from tests.support import ROOT, run

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.skipif(not shutil.which("bazel"), reason="bazel is not installed (apt install bazel-bootstrap)"),
]

WORKSPACE = f'local_repository(name = "hugealign", path = "{ROOT}")\n'
BUILD = """
load("@hugealign//bazel:defs.bzl", "hugealign_text", "hugealign_verify_test")
hugealign_text(name = "ordered", order = "server.order")
cc_binary(name = "server", srcs = ["main.c", "bulk.S"], deps = ["@hugealign//bazel:text"])
cc_binary(name = "hot", srcs = ["main.c", "bulk.S"], deps = [":ordered"])
cc_binary(name = "plain", srcs = ["main.c", "bulk.S"])
hugealign_verify_test(name = "server_text", binary = ":server", options = ["--fail-on=warning"], size = "small")
hugealign_verify_test(name = "hot_text", binary = ":hot", size = "small")
hugealign_verify_test(name = "plain_text", binary = ":plain", options = ["--min-text=1M'; exit 0"], size = "small")
"""
MAIN = "int cold(void) { return 0; }\nint warm(void) { return 0; }\nint main(void) { return cold() + warm(); }\n"
ORDER = "# hugealign.order/1\n# windows: 1\nwarm\ncold\n"
#: Stand-ins: Bazel fetches these repositories from the network, and Debian's has none of them.  They only name its own
#: built-in rules; nothing of them is tested here.
STAND_INS = {
    "rules_cc/cc/defs.bzl": "cc_library cc_binary cc_test cc_import cc_toolchain cc_toolchain_suite",
    "rules_java/java/defs.bzl": "java_binary java_library java_import java_test java_toolchain java_runtime",
}
COVERAGE = 'filegroup(name = "coverage_report_generator", srcs = ["BUILD"], visibility = ["//visibility:public"])\n'


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    top = tmp_path_factory.mktemp("bazel")
    options = [f"startup --output_user_root={top}/root", "build --nosandbox_debug --spawn_strategy=sandboxed"]
    # gold, which Bazel chooses where it is there, keeps headers in the text.
    options += ["build --linkopt=-fuse-ld=bfd --copt=-ffunction-sections", "test --test_output=errors"]
    for name, rules in STAND_INS.items():
        path = top / name
        path.parent.mkdir(parents=True)
        (path.parent / "BUILD").touch()
        path.write_text("".join(f"{rule} = native.{rule}\n" for rule in rules.split()))
    (top / "remote_coverage_tools").mkdir()
    (top / "remote_coverage_tools" / "BUILD").write_text(COVERAGE)
    for name in ("rules_cc", "rules_java", "remote_coverage_tools"):
        (top / name / "WORKSPACE").touch()
        options.append(f"build --override_repository={name}={top}/{name}")
    work = top / "work"
    work.mkdir()
    for name, text in {
        "WORKSPACE": WORKSPACE,
        "BUILD": BUILD,
        "main.c": MAIN,
        "server.order": ORDER,
        "bulk.S": bulk_source(),
        ".bazelrc": "\n".join((*options, "")),
    }.items():
        (work / name).write_text(text)
    yield work
    bazel(work, "shutdown")


def bazel(workspace: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run("bazel", *words, cwd=workspace, PATH="/usr/local/bin:/usr/bin:/bin")


def test_what_depends_on_text_is_linked_in_whole_windows(workspace: Path) -> None:
    done = bazel(workspace, "test", "//:server_text", "//:hot_text", "//:plain_text")
    assert done.returncode == 3, done.stderr  # 3: built, and a test failed
    assert "//:server_text" in done.stdout
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith("//:")}
    assert "PASSED" in lines["//:server_text"]
    assert "PASSED" in lines["//:hot_text"]
    assert "FAILED" in lines["//:plain_text"]
    # Its option is one word, whatever it holds: no shell has ended there with status 0.
    assert "--min-text: not a size" in done.stdout + done.stderr


def test_an_order_is_followed(workspace: Path) -> None:
    assert bazel(workspace, "build", "//:hot").returncode == 0
    result = run("nm", "-n", "--defined-only", workspace / "bazel-bin" / "hot", check=True).stdout.splitlines()
    assert [line[19:] for line in result if line[19:] in ("warm", "cold", "main")] == ["warm", "cold", "main"]
    (workspace / "server.order").write_text(ORDER.replace("warm\ncold", "cold\nwarm"))  # a declared input
    assert bazel(workspace, "build", "//:hot").returncode == 0
    result = run("nm", "-n", "--defined-only", workspace / "bazel-bin" / "hot", check=True).stdout.splitlines()
    assert [line[19:] for line in result if line[19:] in ("warm", "cold", "main")] == ["cold", "warm", "main"]


def test_the_link_sees_nothing_of_this_checkout_but_its_inputs(workspace: Path) -> None:
    done = bazel(workspace, "aquery", "mnemonic(CppLink, //:server)")
    assert done.returncode == 0, done.stderr
    for part in ("bazel/collect2.sh", "hugealign/libexec/ld", "hugealign/link/main.py", "ld-scripts/"):
        assert f"external/hugealign/{part}" in done.stdout, part
