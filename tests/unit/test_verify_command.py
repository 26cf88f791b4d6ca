"""`hugealign verify` from outside: statuses, JSON against its schema, bad input."""

import json
import os
import subprocess
import time
from pathlib import Path

import jsonschema
import pytest

from tests.link.bulk import bulk_object
from tests.support import HUGEALIGN, ROOT, run

SCHEMA = json.loads((ROOT / "hugealign" / "verify" / "verify-1.schema.json").read_text())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One file of each kind, all really made by the tools."""
    directory = tmp_path_factory.mktemp("files")
    bulk = bulk_object(directory)
    (directory / "main.c").write_text("unsigned big_sum(void); int main(void) { return big_sum() == 0; }")
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
    ("name", "status", "text"),
    [
        ("good", 0, "ok  100 % of 2.9 MiB of text in 2 windows"),
        ("small", 0, "small, 4 KiB pages serve it"),
        ("plain", 1, "error[HA001]"),
        ("truncated", 3, "lies beyond the end of the file"),
        ("object", 3, "an object file"),
        ("i386.o", 3, "an object file"),
        ("archive.a", 3, "an archive"),
        ("core", 3, "a core file"),
    ],
)
def test_verdicts(name: str, status: int, text: str, files: dict[str, Path]) -> None:
    done = run(HUGEALIGN, "verify", files[name])
    assert (done.returncode, done.stderr) == (status, "")
    assert text in done.stdout


def test_worst_verdict_decides(files: dict[str, Path]) -> None:
    assert run(HUGEALIGN, "verify", files["good"], files["object"]).returncode == 3
    assert run(HUGEALIGN, "verify", files["object"], files["plain"], files["good"]).returncode == 1
    done = run(HUGEALIGN, "verify", "-q", files["good"], files["small"])
    assert (done.returncode, done.stdout) == (0, "")


def test_json_is_what_the_schema_says(files: dict[str, Path]) -> None:
    done = run(HUGEALIGN, "verify", "--format", "json", *files.values(), "/no/such/file")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(document, SCHEMA)
    verdicts = {Path(file["path"]).name: file["verdict"] for file in document["files"]}
    assert verdicts["good"] == verdicts["small"] == "ok"
    assert verdicts["plain"] == "failed"
    assert verdicts["file"] == verdicts["core"] == verdicts["truncated"] == "unknown"
    assert sum(document["summary"].values()) == len(document["files"])


def test_schema_would_notice() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema": "hugealign.verify/1"}, SCHEMA)


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


def test_explain_knows_every_rule() -> None:
    listed = run(HUGEALIGN, "explain", check=True).stdout
    for line in listed.splitlines():
        page = run(HUGEALIGN, "explain", line.split()[0], check=True).stdout
        assert "Mend: " in page
        assert max(map(len, page.splitlines())) <= 80
    assert run(HUGEALIGN, "explain", "HA999").returncode == 2


def test_a_large_file_takes_no_longer(files: dict[str, Path], tmp_path: Path) -> None:
    """Only headers are read: 8 GiB more of file make no difference that can be felt."""
    large = tmp_path / "large"
    large.write_bytes(files["good"].read_bytes())
    with large.open("r+b") as stream:
        stream.truncate(8 << 30)
    began = time.monotonic()
    assert run(HUGEALIGN, "verify", large).returncode == 0
    assert time.monotonic() - began < 5
