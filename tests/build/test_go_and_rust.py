"""docs/guides/go-and-rust.md, typed: a server in Go and one in Rust, linked by hugealign and fixed afterwards."""

from pathlib import Path

import pytest

from tests.build.manual import blocks
from tests.support import ROOT, Elf, need, run

GO = {
    "go.mod": "module example.com/server\n\ngo 1.19\n",
    "main.go": """\
package main

import (
	"fmt"
	"net/http"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })
	fmt.Println(http.DefaultClient.Timeout)
}
""",
}
# Dead functions would be removed, and a program without them has too little text for a window.
RUST = {
    "Cargo.toml": '[package]\nname = "server"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/main.rs": """\
use std::arch::global_asm;
global_asm!(".globl bulk", "bulk:", "ret", ".fill 3000000, 1, 0x90");
extern "C" {
    fn bulk();
}
fn main() {
    unsafe { bulk() };
    println!("0s");
}
""",
}
GO_LINKED, GO_FIXED, CARGO = [
    block.commands
    for block in blocks(ROOT / "docs/guides/go-and-rust.md")
    if block.what.endswith("test_go_and_rust.py")
]


def typed(commands: str, files: dict[str, str], place: Path) -> str:
    """Type *commands* where *files* are; return what they print."""
    for name, text in files.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    done = run("sh", "-ec", commands, cwd=place)
    assert done.returncode == 0, done.stderr
    return done.stdout


def holds(program: Path) -> bool:
    """Whether all text of *program* is in whole windows, and the program runs."""
    assert run(program).stdout == "0s\n"
    return Elf(program).faults() == []


@pytest.mark.matrix  # compiles Go's runtime
@pytest.mark.parametrize("mode", ["", "-buildmode=pie"])
def test_go_links(mode: str, tmp_path: Path) -> None:
    need("go", "gcc")
    output = typed(GO_LINKED.replace("go build", f"go build {mode}"), GO, tmp_path)
    assert "server: ok  100 %" in output
    assert holds(tmp_path / "server")


@pytest.mark.matrix  # it compiles Go's own library again
def test_go_that_is_fixed(tmp_path: Path) -> None:
    need("go")
    typed(GO_FIXED, GO, tmp_path)
    assert (run(tmp_path / "fixed").stdout, run(tmp_path / "undone").stdout) == ("0s\n", "0s\n")
    assert (tmp_path / "undone").read_bytes() == (tmp_path / "plain").read_bytes()


def test_cargo(tmp_path: Path) -> None:
    need("cargo", "rustc")
    output = typed(CARGO, RUST, tmp_path)
    assert "server: ok  100 %" in output
    (program,) = tmp_path.glob("target/*/release/server")
    assert holds(program)
    # The linker is that of the plain build: rustc turns its LLD off for a linker whose name ends in -gcc.
    run("cargo", "build", "--release", cwd=tmp_path, check=True, CARGO_TARGET_DIR=str(tmp_path / "plain"))
    made_by_lld = [
        "LLD" in run("readelf", "-p", ".comment", path).stdout for path in (program, tmp_path / "plain/release/server")
    ]
    assert made_by_lld[0] == made_by_lld[1]
