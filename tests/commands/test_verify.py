"""`hugealign verify` from outside: statuses, JSON against its schema, bad input."""

import json
import os
import pty
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from hugealign.cli import output
from tests.documents import check
from tests.link.bulk import MAIN_OF_ANY, bulk_object
from tests.support import HUGEALIGN, ROOT, environment, need, run

SCHEMAS = ROOT / "hugealign" / "verification"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One file of each kind, all really made by the tools."""
    directory = tmp_path_factory.mktemp("files")
    bulk = bulk_object(directory)
    (directory / "main.c").write_text(MAIN_OF_ANY)
    (directory / "small.c").write_text("int main(void) { return 0; }")
    made = {
        name: directory / name
        for name in ("good", "plain", "small", "debug", "archive.a", "truncated", "i386.o", "core")
    }
    run(HUGEALIGN, "gcc", directory / "main.c", bulk, "-o", made["good"], check=True)
    run("gcc", "-g", directory / "main.c", bulk, "-o", made["plain"], check=True)
    run("gcc", directory / "small.c", "-o", made["small"], check=True)
    run("objcopy", "--only-keep-debug", made["plain"], made["debug"], check=True)
    run("ar", "rc", made["archive.a"], bulk, check=True)
    made["truncated"].write_bytes(made["good"].read_bytes()[: 3 << 20])
    (directory / "x.s").write_text("nop\n")
    run("as", "--32", directory / "x.s", "-o", made["i386.o"], check=True)
    core = bytearray(made["small"].read_bytes())
    core[16] = 4
    made["core"].write_bytes(core)
    return made | {"object": bulk}


@pytest.mark.parametrize(
    ("name", "status", "codes"),
    [
        ("good", 0, []),
        ("small", 0, []),
        ("plain", 1, ["HA001", "HA003", "HA004"]),
        ("truncated", 3, ["file.damaged"]),
        ("object", 3, ["file.object"]),
        ("i386.o", 3, ["file.object"]),
        ("archive.a", 3, ["file.archive"]),
        ("core", 3, ["file.core"]),
    ],
)
def test_verdicts(name: str, status: int, codes: list[str], files: dict[str, Path]) -> None:
    done = run(HUGEALIGN, "verify", "--json", files[name])
    assert (done.returncode, done.stderr) == (status, "")
    (file,) = json.loads(done.stdout)["files"]
    assert [diagnosis["code"] for diagnosis in [*file["diagnoses"], file.get("problem")] if diagnosis] == codes
    text = run(HUGEALIGN, "verify", files[name]).stdout
    assert all(code in text or code.startswith("file.") for code in codes)


def test_worst_verdict_decides(files: dict[str, Path]) -> None:
    assert run(HUGEALIGN, "verify", files["good"], files["object"]).returncode == 3
    assert run(HUGEALIGN, "verify", files["object"], files["plain"], files["good"]).returncode == 1
    done = run(HUGEALIGN, "verify", "-q", files["good"], files["small"])
    assert (done.returncode, done.stdout) == (0, "")


def test_json_is_what_the_schema_says(files: dict[str, Path]) -> None:
    done = run(HUGEALIGN, "verify", "--json", *files.values(), "/no/such/file")
    assert done.returncode == 1
    document = check(done.stdout)
    by_name = {Path(file["path"]).name: file for file in document["files"]}
    verdicts = {name: file["verdict"] for name, file in by_name.items()}
    assert verdicts["good"] == verdicts["small"] == "ok"
    assert verdicts["plain"] == "failed"
    assert verdicts["file"] == verdicts["core"] == verdicts["truncated"] == "unknown"
    assert sum(document["summary"].values()) == len(document["files"])
    assert by_name["good"]["build_id"] in run("readelf", "-n", files["good"]).stdout
    assert by_name["good"]["file_bytes"] == files["good"].stat().st_size
    assert by_name["good"]["kernels"]
    covered = [file["coverage"] for file in document["files"] if "coverage" in file]
    for field in ("text_bytes", "huge_bytes", "windows", "pad_bytes"):
        assert document["totals"][field] == sum(coverage[field] for coverage in covered)
        parts = [segment["coverage"] for segment in by_name["good"]["segments"]]
        assert by_name["good"]["coverage"][field] == sum(part[field] for part in parts)
    assert document["totals"]["error"] == sum(len(file["diagnoses"]) for file in document["files"])


def test_comparison(files: dict[str, Path]) -> None:
    worse = run(HUGEALIGN, "diff", files["good"], files["plain"])
    assert (worse.returncode, worse.stderr) == (1, "")
    assert "gained error[HA001]" in worse.stdout
    assert "  coverage         100 %       0.0 %     -100.0 pp\n" in worse.stdout
    for old, new, status, verdict in (("plain", "good", 0, "better"), ("/no", "small", 3, "unknown")):
        done = run(HUGEALIGN, "diff", "--json", files.get(old, old), files[new])
        document = check(done.stdout)
        assert (done.returncode, [pair["verdict"] for pair in document["pairs"]]) == (status, [verdict])
    assert run(HUGEALIGN, "diff", files["plain"], files["plain"]).returncode == 0
    assert run(HUGEALIGN, "diff", "--fail-on=never", files["good"], files["plain"]).returncode == 0


def test_comparison_of_directories(files: dict[str, Path], tmp_path: Path) -> None:
    for side, kinds in (("new", ("good", "plain", "small")), ("old", ("plain", "plain", "small"))):
        (tmp_path / side / "sub").mkdir(parents=True)
        for number, kind in enumerate(kinds):
            shutil.copy(files[kind], tmp_path / side / "sub" / f"file{number}")
    (tmp_path / "old" / "sub" / "file2").rename(tmp_path / "old" / "gone")
    done = run(HUGEALIGN, "diff", "-r", "old", "new/", cwd=tmp_path)
    heads = [line for line in done.stdout.splitlines() if line[:1] != " "]
    assert heads == [
        "new/sub/file0 against old/sub/file0: better",
        "new/sub/file1 against old/sub/file1: same",
        "new/sub/file2 (only in NEW): same",
        "old/gone (only in OLD): same",
    ]
    assert done.returncode == 0


def test_dashes_that_end_the_options(files: dict[str, Path], tmp_path: Path) -> None:
    for name in ("-q", "-x--"):
        shutil.copy(files["small"], tmp_path / name)
    assert run(HUGEALIGN, "verify", "--", "-x--", cwd=tmp_path).stdout.startswith("-x--: ok")
    assert run(HUGEALIGN, "verify", "--", "-q", cwd=tmp_path).stdout.startswith("-q: ok")
    assert run(HUGEALIGN, "diff", "--", "-q", "-q", cwd=tmp_path).stdout.startswith("-q against -q: same")


def test_baseline(files: dict[str, Path], tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    words = [HUGEALIGN, "verify", files["plain"]]
    assert run(*words, "--json", "-o", known).returncode == 1
    assert run(*words, "--baseline", known).returncode == 0
    done = run(*words, "--baseline", known, "--min-text", "1G", "-v")
    assert f"fixed since the baseline: {files['plain']}: HA004\n" in done.stdout
    document = check(run(*words, "--baseline", known, "--json").stdout)
    assert document["totals"]["accepted"] == 3
    results = json.loads(run(*words, "--baseline", known, "--format", "sarif").stdout)["runs"][0]["results"]
    assert all(result["suppressions"] for result in results)
    gone = run(*words, "--baseline", tmp_path / "gone")
    assert (gone.returncode, gone.stdout) == (2, "")


def test_windows_are_a_gate(files: dict[str, Path], tmp_path: Path) -> None:
    """Code has moved into a library: what is left is small, which is ok unless windows are required."""
    (tmp_path / "work.c").write_text("int work(void) { return 0; }")
    (tmp_path / "main.c").write_text("int work(void); int main(void) { return work(); }")
    library, moved = tmp_path / "libwork.so", tmp_path / "server"
    run("gcc", "-shared", tmp_path / "work.c", "-o", library, check=True)
    run("gcc", tmp_path / "main.c", library, "-o", moved, check=True)
    assert run(HUGEALIGN, "verify", "--fail-on=warning", moved).returncode == 0
    for words in (["--min-windows", "1"], ["--min-windows=1", "--min-text=1G"]):
        done = run(HUGEALIGN, "verify", *words, moved)
        assert done.returncode == 1
        assert "error[HA030]" in done.stdout
    for windows, status in ((2, 0), (3, 1)):
        assert run(HUGEALIGN, "verify", f"--min-windows={windows}", files["good"]).returncode == status
    (tmp_path / "hugealign.toml").write_text('[verify]\nmin-windows = "1"\n')
    assert run(HUGEALIGN, "verify", moved, cwd=tmp_path).returncode == 1
    for number in ("-1", "x", "", "9" * 40):
        assert run(HUGEALIGN, "verify", f"--min-windows={number}", moved).returncode == 2


def test_configuration(files: dict[str, Path], tmp_path: Path) -> None:
    shutil.copy(files["plain"], tmp_path / "plain")
    config = tmp_path / "hugealign.toml"
    config.write_text(
        '[verify]\nfail-on = "warning"\n[[verify.exceptions]]\nfiles = ["pl*"]\n'
        'ignore = ["HA001", "HA003", "HA004"]\nreason = "linked by \\u001b[31m others"\n'
    )

    def verify(*words: str) -> subprocess.CompletedProcess[str]:
        return run(HUGEALIGN, "verify", *words, cwd=tmp_path)

    done = verify("plain")
    assert (done.returncode, done.stderr) == (0, "")
    assert r"3 findings accepted, HA001, HA003, HA004: linked by \x1b[31m others" in done.stdout
    document = check(verify("--json", "plain").stdout)
    assert {accepted["reason"] for accepted in document["files"][0]["accepted"]} == {r"linked by \x1b[31m others"}
    assert r"linked by \\x1b" in verify("--format=sarif", "plain").stdout
    assert verify("--config=/dev/null", "plain").returncode == 1
    config.write_text("[verify]\nfail-on = 'error'\nselect = ['HA01']\n")
    done = verify("plain")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"hugealign: error: {config}: verify.select: no rule HA01; did you mean HA001?\n"
    config.rename(tmp_path / "other.toml")
    assert verify("plain").returncode == 1
    assert verify("--config", "other.toml", "plain").returncode == 2


def test_a_link_reads_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text("int main(void) { return 0; }\n")
    os.mkfifo(tmp_path / "hugealign.toml")  # who opened it would wait for ever
    assert run(HUGEALIGN, "gcc", "x.c", cwd=tmp_path).stderr == ""


def test_lists_on_standard_input(files: dict[str, Path], tmp_path: Path) -> None:
    names = [tmp_path / "with\nnewline", tmp_path / "plain"]
    for name in names:
        shutil.copy(files["small"], name)
    for separator, option, status in (("\0", ["-0"], 0), ("\n", [], 3)):
        done = subprocess.run(
            [HUGEALIGN, "verify", *option, "-"],
            input=separator.join(map(str, names)), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout.count(": ok")) == (status, 2 if option else 1)
    empty = subprocess.run([HUGEALIGN, "verify", "-"], input="", capture_output=True, text=True, check=False)
    assert (empty.returncode, empty.stderr) == (3, "hugealign: error: no files on standard input\n")


def test_output_is_written_whole_or_not_at_all(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real/report")
    (tmp_path / "real" / "report").write_text("before")
    done = run(HUGEALIGN, "verify", files["plain"], "-o", "link", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    assert (tmp_path / "link").is_symlink()
    assert "error[HA001]" in (tmp_path / "real" / "report").read_text()
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["report"]
    for target, reason in (("/dev/full", "No space left"), ("real", "Is a directory"), ("no/such", "No such file")):
        done = run(HUGEALIGN, "verify", files["plain"], "-o", target, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
        assert reason in done.stderr
    assert run(HUGEALIGN, "verify", files["small"], "-o", "/dev/null").returncode == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with open("/dev/full", "w") as full:
        done = subprocess.run([HUGEALIGN, "verify", files["small"]], stdout=full, stderr=-1, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)


@pytest.mark.parametrize(
    ("terminal", "words", "variables", "coloured"),
    [
        (True, (), {}, True),
        (True, (), {"NO_COLOR": "1"}, False),
        (True, (), {"NO_COLOR": ""}, True),
        (True, (), {"TERM": "dumb"}, False),
        (True, ("--format=gcc",), {"FORCE_COLOR": "1"}, False),
        (True, ("--json",), {"FORCE_COLOR": "1"}, False),
        (False, (), {}, False),
        (False, (), {"FORCE_COLOR": "1"}, True),
        (False, (), {"CLICOLOR_FORCE": "1"}, True),
        (False, (), {"CLICOLOR_FORCE": "0"}, False),
        (False, (), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colour(
    terminal: bool, words: tuple[str, ...], variables: dict[str, str], coloured: bool, files: dict[str, Path]
) -> None:
    names = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE")
    env = {k: v for k, v in environment().items() if k not in names} | {"TERM": "xterm"} | variables
    ours, theirs = pty.openpty() if terminal else os.pipe()
    subprocess.run([HUGEALIGN, "verify", *words, files["plain"]], stdout=theirs, env=env, check=False)
    assert (b"\x1b[" in os.read(ours, 1 << 16)) == coloured
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize(
    ("encoding", "utf8", "written"),
    [("ascii", False, b"\\u6f22 \\xe9"), ("latin-1", False, b"\\u6f22 \xe9"), ("ascii", True, "漢 é".encode())],
)
def test_terminals_of_any_encoding(
    encoding: str, utf8: bool, written: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "terminal").open("w", encoding=encoding) as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        output.write("漢 é", None, utf8=utf8)
    assert (tmp_path / "terminal").read_bytes() == written


def test_help_is_complete_and_narrow() -> None:
    text = run(HUGEALIGN, "verify", "--help", check=True, COLUMNS="80").stdout
    assert max(map(len, text.splitlines())) <= 80
    for option in (
        "-r", "-0", "-j", "--max-unpacked", "--page-size", "--min-text", "--select",
        "--ignore", "--config",
        "--fail-on", "--baseline", "--json", "--format", "-o", "-q", "-v", "--kernels",
    ):  # fmt: skip
        assert re.search(rf"^  (-\w, |-\w [A-Z]+, )?{option}\b", text, re.MULTILINE), option
    assert "\nexamples:\n" in text
    assert "\nexit status:\n  0  ok\n" in text


def test_help_loads_nothing_of_the_check() -> None:
    """What keeps it under 40 ms."""

    def loads(*words: object) -> set[str]:
        done = run("/usr/bin/python3", "-I", "-S", "-X", "importtime", *words, check=True)
        return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}

    loaded = loads(ROOT / "hugealign" / "__main__.py", "verify", "--help")
    assert "hugealign.cli.arguments" in loaded  # which the module of the command imports
    loaded -= loads("-c", "import argparse; argparse.ArgumentParser().format_help()")  # Python 3.14's loads dataclasses
    heavy = {"dataclasses", "json", "subprocess", "pathlib", "typing", "hashlib", "xml", "inspect"}
    assert not {name for name in loaded if name in heavy or name.startswith("hugealign.verification")}


def test_odd_files_get_a_verdict_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("hello")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "\x1b[31mred").write_text("x")
    (tmp_path / "nul").write_bytes(b"\x7fELF\x02\x01\x01" + b"\0" * 57)
    with (tmp_path / "huge").open("wb") as stream:
        stream.write(b"\x7fELF\x02\x01\x01" + b"\xff" * 57)
        stream.truncate(10 << 30)
    for path in [*tmp_path.iterdir(), Path("/dev/null"), Path("/proc/self/mem"), Path("/no/such")]:
        done = run(HUGEALIGN, "verify", path)
        assert done.returncode == 3, path
        assert "Traceback" not in done.stderr
        assert done.stdout.count("\n") == 1
        assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["verify"],
        ["verify", "--format", "xml", "x"],
        ["verify", "--page-size", "3M", "x"],
        ["verify", "--no"],
        ["verify", "--"],
        ["verify", "--format=--", "x"],
        ["diff", "x"],
        ["diff", "x", "y", "z"],
        ["diff", "--format", "sarif", "x", "y"],
        ["verify", "--json", "--format", "sarif", "x"],
        ["verify", "-q", "-v", "x"],
        ["verify", "--select", "HA999", "x"],
        ["verify", "--jobs", "-3", "x"],
        ["verify", "--max-unpacked", "x", "x"],
        ["--no-such"],
    ],
)
def test_wrong_usage(words: list[str]) -> None:
    done = run(HUGEALIGN, *words)
    if words == ["--no-such"]:  # an option first is the compiler's
        assert done.stderr.startswith("cc: ")
    else:
        assert done.returncode == 2
        assert done.stdout == ""


def test_reader_that_goes_away(files: dict[str, Path]) -> None:
    words = f"{HUGEALIGN} verify {' '.join([str(files['plain'])] * 400)} | head -n 1"
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, check=False)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_a_large_file_takes_no_longer(files: dict[str, Path], tmp_path: Path) -> None:
    """Only headers are read, a small part of 8 GiB."""
    large = tmp_path / "large"
    large.write_bytes(files["good"].read_bytes())
    with large.open("r+b") as stream:
        stream.truncate(8 << 30)
    need("strace")
    log = tmp_path / "calls"
    run("strace", "-f", "-y", "-o", log, "-e", "trace=read,pread64,preadv,mmap", HUGEALIGN, "verify", large, check=True)
    calls = [line for line in log.read_text().splitlines() if f"<{large}>" in line]
    assert calls
    assert not any("mmap(" in line for line in calls)
    assert sum(int(line.rpartition("= ")[2]) for line in calls) < 8 << 20
