"""Links that fail fail as they would without hugealign; what goes wrong with hugealign does not fail them."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import HUGEALIGN, ROOT, SRC, Elf, Toolchain, environment, run


def test_errors_of_the_user_are_shown_once_and_as_they_are(
    toolchain: Toolchain, bulk: Path, large: Path, tmp_path: Path
) -> None:
    (tmp_path / "bad.c").write_text(
        "int nowhere(void); unsigned big_sum(void); int main(void) { return nowhere() + big_sum(); }"
    )
    run(toolchain.cc, "-c", tmp_path / "bad.c", "-o", tmp_path / "bad.o", check=True)
    for code in (bulk, large):
        words = toolchain.command(tmp_path / "bad.o", code, "-o", tmp_path / "out")
        plain, wrapped = run(*words), run(HUGEALIGN, *words)
        assert plain.returncode != 0
        assert (wrapped.returncode, wrapped.stdout, wrapped.stderr) == (plain.returncode, plain.stdout, plain.stderr)
        assert not (tmp_path / "out").exists()


def test_warnings_of_the_user_are_shown_once(bulk: Path, large: Path, tmp_path: Path) -> None:
    (tmp_path / "warn.c").write_text(
        'static const char text[] __attribute__((section(".gnu.warning.puts"), used)) = "puts is loud";\n'
        '#include <stdio.h>\nunsigned big_sum(void); int main(void) { puts("x"); return big_sum() == 0; }\n'
    )
    run("gcc", "-c", tmp_path / "warn.c", "-o", tmp_path / "warn.o", check=True)
    for code in (bulk, large):
        words = ("gcc", tmp_path / "warn.o", code, "-o", tmp_path / "out")
        plain, wrapped = run(*words), run(HUGEALIGN, *words)
        assert "puts is loud" in plain.stderr
        assert (wrapped.returncode, wrapped.stderr) == (plain.returncode, plain.stderr)
        assert Elf(tmp_path / "out").faults() == []


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A copy of the tree, to be broken."""
    copy = tmp_path / "broken"
    for part in ("bin", "hugealign", "ld-scripts"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def test_script_that_the_linker_rejects(broken: Path, main: Path, bulk: Path, tmp_path: Path) -> None:
    (broken / "ld-scripts" / "bfd-x86_64.ld").write_text("SECTIONS { nonsense }\n")
    done = run(broken / "bin" / "hugealign", "gcc", main, bulk, "-o", tmp_path / "out")
    assert done.returncode == 0
    assert done.stderr.startswith(f"hugealign: warning: {tmp_path}/out: linked without huge-page layout")
    assert done.stderr.count("\n") == 1
    assert run(tmp_path / "out").returncode == 0


def test_failure_of_our_own(broken: Path, main: Path, bulk: Path, tmp_path: Path) -> None:
    rules = broken / "hugealign" / "elf" / "objectfile.py"
    rules.write_text("raise RuntimeError('broken on purpose')\n")
    done = run(broken / "bin" / "hugealign", "gcc", main, bulk, "-o", tmp_path / "out")
    assert done.returncode == 0
    assert "hugealign failed: RuntimeError: broken on purpose" in done.stderr
    assert done.stderr.count("\n") == 1
    assert run(tmp_path / "out").returncode == 0


def test_module_that_does_not_even_load(broken: Path, main: Path, bulk: Path, tmp_path: Path) -> None:
    """An installation cut short: the plain link is done."""
    (broken / "hugealign" / "settings.py").write_text("broken on purpose\n")
    done = run(broken / "bin" / "hugealign", "gcc", main, bulk, "-o", tmp_path / "out")
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "hugealign: warning:" in done.stderr
    assert run(tmp_path / "out").returncode == 0


def writable_and_executable(target: Path) -> None:
    """Make an object with such a section."""
    source = '.section awx, "awx", @progbits\n.fill 64, 1, 0x90\n.section .note.GNU-stack,"",@progbits\n'
    target.with_suffix(".s").write_text(source)
    run("gcc", "-c", target.with_suffix(".s"), "-o", target, check=True)


@pytest.mark.parametrize(("check", "status"), [("off", 0), ("warn", 0), ("error", 1)])
def test_shortfall_is_one_line(check: str, status: int, main: Path, bulk: Path, tmp_path: Path) -> None:
    """A section that is writable and executable makes a second executable segment; no edit repairs that."""
    writable_and_executable(tmp_path / "wx.o")
    words = (HUGEALIGN, "gcc", "-Wl,--no-warn-rwx-segments", main, bulk, tmp_path / "wx.o", "-o", tmp_path / "out")
    done = run(*words, HUGEALIGN_CHECK=check)
    assert (done.returncode != 0) == (status != 0)
    ours = [line for line in done.stderr.splitlines() if line.startswith("hugealign:")]
    assert len(ours) == (0 if check == "off" else 1)
    if ours:
        assert "[HA00" in ours[0]
        assert str(tmp_path / "out") in ours[0]
    assert (tmp_path / "out").exists() == (status == 0)


def test_debug_says_what_was_done(main: Path, bulk: Path, tmp_path: Path) -> None:
    done = run(HUGEALIGN, "gcc", main, bulk, "-o", tmp_path / "out", HUGEALIGN_DEBUG="1")
    assert " as bfd: -T bfd-x86_64.ld ... pad-x86_64.o -z max-page-size=0x200000 -z separate-code" in done.stderr
    done = run(HUGEALIGN, "gcc", "-nostdlib", "-r", main, bulk, "-o", tmp_path / "out.o", HUGEALIGN_DEBUG="1")
    assert "left alone: -r: a relocatable link" in done.stderr


@pytest.mark.parametrize(
    "end", ["kill -11 $$", "kill -15 $$", "kill -9 $$", "exit 200"], ids=["11", "15", "9", "exit-200"]
)
def test_linker_killed_by_a_signal(end: str, main: Path, bulk: Path, large: Path, tmp_path: Path) -> None:
    """Or with a status beyond those that shells have for signals; a linker that only its answers name, and ld.bfd."""
    (tmp_path / "bin").mkdir()
    linker = tmp_path / "bin" / "ld"
    linker.write_text(f"#!/bin/sh\n{end}\n")
    linker.chmod(0o755)
    for known in (False, True):
        if known:
            linker.with_name("ld.bfd").hardlink_to(linker)
        for code in (bulk, large):
            words = ("gcc", f"-B{tmp_path / 'bin'}", main, code, "-o", tmp_path / "out")
            plain, wrapped = run(*words), run(HUGEALIGN, *words)
            assert plain.returncode != 0
            assert (wrapped.returncode, wrapped.stderr) == (plain.returncode, plain.stderr)


def _lives(status: Path) -> bool:
    """Whether the process is there and not dead, if perhaps not yet reaped."""
    try:
        return "State:\tZ" not in status.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("lost", ["a bit", "a directory"])
def test_shims_that_cannot_be_run(lost: str, broken: Path, main: Path, bulk: Path, tmp_path: Path) -> None:
    """Unpacked by something that lost the modes, or on a file system mounted noexec: compilers pass over them."""
    shims = broken / "hugealign" / "libexec"
    if lost == "a bit":
        for shim in shims.iterdir():
            shim.chmod(0o644)
    else:
        shutil.rmtree(shims)
    done = run(broken / "bin" / "hugealign", "gcc", main, bulk, "-o", tmp_path / "out", check=True)
    because = f"because {shims}/ld cannot be executed; reinstall hugealign"
    assert done.stderr == f"hugealign: warning: gcc: linked without hugealign, {because}\n"
    assert run(tmp_path / "out").returncode == 0
    command = (broken / "bin" / "hugealign", "gcc", "-x", "c", "-c", "/dev/null", "-o", tmp_path / "o")
    assert run(*command, check=True).stderr == ""
    done = run(broken / "bin" / "hugealign", "build", "--", "true")
    assert (done.returncode, done.stderr.count("\n")) == (125, 1)
    assert f"{shims}/ld cannot be executed" in done.stderr


def test_interrupt_while_python_loads(broken: Path, bulk: Path, large: Path, tmp_path: Path) -> None:
    """A linker says nothing about ^C, and neither do we, at any moment that Python leaves to us."""
    main = broken / "hugealign" / "link" / "main.py"
    main.write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n")
    for code in (bulk, large):
        done = run(broken / "hugealign/libexec/ld", "-shared", code, "-o", "out", cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_interrupt_leaves_no_linker_behind(main: Path, bulk: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    linker = tmp_path / "bin" / "ld.bfd"
    linker.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/started\nexec sleep 60\n")
    linker.chmod(0o755)
    words = [
        str(HUGEALIGN),
        "gcc",
        "-fuse-ld=bfd",
        f"-B{tmp_path / 'bin'}",
        str(main),
        str(bulk),
        "-o",
        str(tmp_path / "out"),
    ]

    with subprocess.Popen(
        words,
        env=environment(),
        start_new_session=True,
        stderr=subprocess.PIPE,
    ) as process:
        while not (tmp_path / "started").exists() or not (tmp_path / "started").read_text().strip():
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)  # what Ctrl-C does
        process.wait()
    status = Path("/proc", (tmp_path / "started").read_text().strip(), "status")
    deadline = time.monotonic() + 100
    while _lives(status):  # dead, if perhaps not yet reaped
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_response_files(main: Path, bulk: Path, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.write_text(f"'{main}'\n")
    outer = tmp_path / "out er"
    outer.write_text(f'@{inner} "{bulk}" -o {str(tmp_path / "out put").replace(" ", chr(92) + " ")}\n')
    done = run(HUGEALIGN, "gcc", f"@{outer}", check=True)
    assert done.stderr == ""
    assert Elf(tmp_path / "out put").faults() == []
    (tmp_path / "relocatable").write_text("-r")
    run(
        HUGEALIGN,
        "gcc",
        "-no-pie",
        "-nostdlib",
        f"-Wl,@{tmp_path / 'relocatable'}",
        main,
        bulk,
        "-o",
        tmp_path / "r.o",
        check=True,
    )
    assert Elf(tmp_path / "r.o").type == "ET_REL"


@pytest.mark.parametrize(
    "name", ["with space", "quo'te\"s", "new\nline", "dollar$(touch hacked)", "tab\t*?[a]", "\udcff\udcfe", "ünïcode"]
)
def test_names_that_a_shell_would_trip_over(name: str, main: Path, bulk: Path, tmp_path: Path) -> None:
    directory = tmp_path / name
    directory.mkdir()
    shutil.copy(main, directory / "ma in.o")
    output = directory / name
    done = run(HUGEALIGN, "gcc", directory / "ma in.o", bulk, "-o", output, cwd=directory)
    assert (done.returncode, done.stderr) == (0, "")
    assert Elf(output).faults() == []
    assert not (directory / "hacked").exists()


def test_warning_escapes_the_name_of_the_output(main: Path, bulk: Path, tmp_path: Path) -> None:
    run("gcc", "-c", SRC / "relro.c", "-o", tmp_path / "x.o", check=True)
    writable_and_executable(tmp_path / "wx.o")
    output = tmp_path / "\x1b[31mred\n"
    done = run(HUGEALIGN, "gcc", "-Wl,--no-warn-rwx-segments", main, bulk, tmp_path / "wx.o", "-o", output)
    assert done.returncode == 0
    assert "\x1b" not in done.stderr
    assert "\\x1b[31mred\\n: " in done.stderr
