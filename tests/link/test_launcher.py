"""The word in front of the compiler changes nothing but the link: status, stdout, stderr and files are the same."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.link.bulk import MAIN_OF_ANY
from tests.orders import path as order_path
from tests.orders import vectors
from tests.support import BIN, HUGEALIGN, Elf, environment, need, run

GOOD = '#include <stdio.h>\nint main(int argc, char **argv) { (void)argv; printf("%d\\n", argc); return argc - 1; }\n'
#: Forms of calling a compiler, as a user would type them; every file in the directory is compared afterwards.
FORMS = {
    "no input": "",
    "-v": "-v",
    "--version": "--version",
    "-dumpmachine": "-dumpmachine",
    "-dumpversion": "-dumpversion",
    "-print-prog-name": "-print-prog-name=ld",
    "-print-search-dirs": "-print-search-dirs",
    "-print-file-name": "-print-file-name=libc.so",
    "-###": "-### good.c -o good",
    "-c": "-c good.c",
    "-c -o": "-g -O2 -c good.c -o named.o",
    "-c -v": "-v -c good.c",
    "-c -Werror": "-Wall -Wextra -Werror -c good.c",
    "-S": "-S good.c",
    "-E": "-E good.c",
    "-E -o": "-E good.c -o good.i",
    "-E -dM": "-E -dM -x c /dev/null",
    "-M": "-M good.c",
    "-MM": "-MM good.c",
    "-MMD -c": "-MMD -MP -c good.c",
    "-fsyntax-only": "-fsyntax-only good.c",
    "precompiled header": "-x c-header good.h -o good.h.gch",
    "-flto -c": "-flto -c good.c",
    "-save-temps -c": "-save-temps -c good.c",
    "syntax error": "-c bad.c",
    "no such file": "-c absent.c",
    "unknown option": "--no-such-option good.c",
    "response file": "@words",
    "link": "good.c -o good",
    "link, default name": "good.c",
    "link -v": "-v good.o2 -x none -o good",
    "link -shared": "-shared -fPIC good.c -o libgood.so",
    "link -r": "-r good.c -o good-r.o",
    "link -Wl,-r": "-nostdlib -Wl,-r good.c -o good-r.o",
    "link, undefined symbol": "undefined.c -o undefined",
    "link, no such library": "good.c -lno-such-library -o good",
    "link, no such directory": "good.c -o no/such/directory",
    "link to /dev/null": "good.c -o /dev/null",
    "link -Wl,--version": "-Wl,--version",
    "link, empty argument": "good.c '' -o good",
    "link -pipe": "-pipe good.c -o good",
    "link -lm": "good.c -lm -lpthread -o good",
    "link -flto": "-flto -O2 good.c -o good",
    "link -Wl,-Map": "good.c -Wl,-Map,good.map -o good",
    "link -Xlinker -E": "good.c -Xlinker -E -o good",
}
GCC = Path(shutil.which("gcc") or "gcc").resolve().name  # x86_64-linux-gnu-gcc-12
COMPILERS = (
    "gcc",
    "g++",
    "cc",
    "c++",
    GCC.removeprefix("x86_64-linux-gnu-"),
    GCC,
    "clang-14",
    "clang++-14",
    "clang-19",
    "clang",
)
ONE_WORD = ("gcc", "g++", "cc", "c++", "clang", "clang++")


def split(words: str) -> list[str]:
    return [word if word != "''" else "" for word in words.split()]


def prepare(directory: Path) -> Path:
    directory.mkdir()
    (directory / "good.c").write_text(GOOD)
    (directory / "good.o2").write_text("")
    (directory / "good.h").write_text("int declared(void);\n")
    (directory / "bad.c").write_text("int main( { return 0; }\n")
    (directory / "undefined.c").write_text("int nowhere(void); int main(void) { return nowhere(); }\n")
    (directory / "words").write_text("-c 'good.c' -o \"from words.o\"\n")
    return directory


def outcome(argv: list[str], directory: Path) -> tuple[int, str, str, dict[str, bytes]]:
    """Status, output with temporary names levelled, and the files that were made."""
    done = run(*argv, cwd=directory, env=environment(TMPDIR="/tmp"))
    # Precompiled headers hold the time of their header.
    kept = [path for path in directory.iterdir() if path.suffix not in {".map", ".gch"}]
    files = {path.name: path.read_bytes() for path in kept}
    shutil.rmtree(directory)

    def level(text: str) -> str:
        return re.sub(r"/tmp/[\w.-]+", "/tmp/TEMPORARY", text.replace(str(directory), "DIR"))

    return done.returncode, level(done.stdout), level(done.stderr), files


def first_difference(one: object, other: object) -> str:
    a, b = repr(one), repr(other)
    at = max(0, next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))) - 60)
    return f"{a[at : at + 300]} / {b[at : at + 300]}"


@pytest.mark.matrix
@pytest.mark.parametrize("compiler", COMPILERS)
def test_same_as_the_bare_compiler(compiler: str, tmp_path: Path) -> None:
    need(compiler)
    differences = []
    for name, words in FORMS.items():
        bare = outcome([compiler, *split(words)], prepare(tmp_path / "work"))
        wrapped = outcome([str(HUGEALIGN), compiler, *split(words)], prepare(tmp_path / "work"))
        if bare == wrapped:
            continue
        repeated = outcome([compiler, *split(words)], prepare(tmp_path / "work"))
        for part, one, two, other in zip(("status", "stdout", "stderr", "files"), bare, repeated, wrapped, strict=True):
            if name in ("link -v", "link -Wl,--version") and part == "stderr":
                continue  # names the linker that is run, and -B
            if one == two and one != other:  # what differs by itself (a precompiled header) is not compared
                differences.append(f"{compiler}, {name}: {part}: {first_difference(one, other)}")
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("compiler", ONE_WORD)
def test_one_word_commands(compiler: str, tmp_path: Path) -> None:
    need(compiler)
    bare = outcome([compiler, "-c", "good.c"], prepare(tmp_path / "work"))
    assert outcome([str(BIN / f"hugealign-{compiler}"), "-c", "good.c"], prepare(tmp_path / "work")) == bare


def test_any_name_through_a_symlink(tmp_path: Path) -> None:
    link = tmp_path / f"hugealign-{GCC}"
    link.symlink_to(BIN / "hugealign-gcc")
    assert run(link, "-dumpmachine").stdout == "x86_64-linux-gnu\n"
    other = tmp_path / "hugealign"
    other.symlink_to(HUGEALIGN)
    assert run(other, "gcc", "-dumpmachine").stdout == "x86_64-linux-gnu\n"


def test_a_directory_that_is_a_link(bulk: Path, tmp_path: Path) -> None:
    """~/bin to the bin of a checkout: beside the link there is no package."""
    (tmp_path / "bin").symlink_to(BIN)
    (tmp_path / "main.c").write_text(MAIN_OF_ANY)
    for words in (("bin/hugealign", "gcc"), ("bin/hugealign-gcc",)):
        run(*words, "main.c", bulk, "-o", "out", cwd=tmp_path, check=True)
        assert Elf(tmp_path / "out").faults() == []


def test_option_as_first_word_goes_to_cc() -> None:
    # Build systems drop the second word of CC="hugealign gcc".
    assert run(HUGEALIGN, "-dumpmachine").stdout == run("cc", "-dumpmachine").stdout
    assert (
        run(HUGEALIGN, "-E", "-dM", "-x", "c", "/dev/null").stdout
        == run("cc", "-E", "-dM", "-x", "c", "/dev/null").stdout
    )


def test_disable_is_the_bare_compiler(bulk: Path, tmp_path: Path) -> None:
    main = tmp_path / "main.c"
    main.write_text(MAIN_OF_ANY)
    run("gcc", "-c", main, "-o", tmp_path / "main.o", check=True)
    words = ("gcc", tmp_path / "main.o", bulk, "-o")
    run(*words, tmp_path / "bare", check=True)
    run(HUGEALIGN, *words, tmp_path / "off", HUGEALIGN_DISABLE="1", check=True)
    run(HUGEALIGN, *words, tmp_path / "on", HUGEALIGN_DISABLE="0", check=True)
    assert (tmp_path / "off").read_bytes() == (tmp_path / "bare").read_bytes() != (tmp_path / "on").read_bytes()


def test_signal_and_pid_are_the_compilers_own(tmp_path: Path) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\necho $$\nkill -TERM $$\n")
    compiler.chmod(0o755)
    with subprocess.Popen(
        [HUGEALIGN, compiler, "x.c"], env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.read() == f"{process.pid}\n"
    assert process.returncode == -signal.SIGTERM


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("no-such-compiler", "-c", "x.c"), 127, "no-such-compiler: command not found"),
        (("./no-such-compiler", "x.c"), 127, "./no-such-compiler: command not found"),
        (("./data", "x.c"), 126, "./data: not executable"),
        (("./directory", "x.c"), 126, "./directory: is a directory"),
    ],
)
def test_compiler_that_cannot_run(words: tuple[str, ...], status: int, message: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    (tmp_path / "directory").mkdir()
    done = run(HUGEALIGN, *words, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", f"hugealign: error: {message}\n")


def test_no_compiler_named() -> None:
    done = run(HUGEALIGN)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "usage: hugealign" in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HUGEALIGN_DISABLE", "yes"),
        ("HUGEALIGN_DEBUG", "2"),
        ("HUGEALIGN_CHECK", "maybe"),
        ("HUGEALIGN_MIN_TEXT", "big"),
        ("HUGEALIGN_MIN_TEXT", "$(touch hacked)"),
        ("HUGEALIGN_MIN_TEXT", "-1"),
        ("HUGEALIGN_PAGE_SIZE", "2x"),
        ("HUGEALIGN_PAGE_SIZE", "\x1b[31m"),
    ],
)
def test_nonsense_in_the_environment(name: str, value: str, tmp_path: Path) -> None:
    work = prepare(tmp_path / "work")
    done = run(HUGEALIGN, "gcc", "good.c", "-o", "good", cwd=work, env=environment(**{name: value}))
    assert done.returncode == 125
    assert done.stderr.startswith("hugealign: error: HUGEALIGN_")
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr
    assert not (work / "hacked").exists()
    assert not (work / "good").exists()


@pytest.mark.parametrize("value", ["3M", "0", "512", "2G", "99999999999999999999"])
def test_impossible_page_sizes(value: str, tmp_path: Path) -> None:
    work = prepare(tmp_path / "work")
    words = ("gcc", "good.c", "-o", "good")
    done = run(HUGEALIGN, *words, cwd=work, env=environment(HUGEALIGN_PAGE_SIZE=value, HUGEALIGN_MIN_TEXT="0"))
    assert done.returncode != 0
    assert done.stderr.startswith("hugealign: error: HUGEALIGN_PAGE_SIZE:")
    assert not (work / "good").exists()


def test_launchers_in_front_of_the_compiler(tmp_path: Path) -> None:
    # A compiler cache takes no -B of its own; the compiler behind it does.
    cache = tmp_path / "ccache"
    cache.write_text('#!/bin/sh\nprintf "%s\\n" "$COMPILER_PATH" "$@"\n')
    cache.chmod(0o755)
    path, *words = run(HUGEALIGN, cache, "gcc", "x.o", "-o", "x", COMPILER_PATH="/mine").stdout.split()
    assert path.endswith("/hugealign/libexec:/mine")
    assert words == ["gcc", f"-B{path.partition(':')[0]}/", "x.o", "-o", "x"]
    assert run(HUGEALIGN, cache, "-s").stdout.split()[1:] == ["-s"]


def test_a_checkout_with_spaces_and_quotes_in_its_path(bulk: Path, tmp_path: Path) -> None:
    home = tmp_path / 'it\'s a "home" $HOME'
    home.mkdir()
    root = Path(BIN).parent
    for part in ("bin", "hugealign", "ld-scripts"):
        shutil.copytree(root / part, home / part, ignore=shutil.ignore_patterns("__pycache__"))
    main = home / "ma in.c"
    main.write_text(MAIN_OF_ANY)
    program = home / "pro gram"
    done = run(home / "bin" / "hugealign", "gcc", main, bulk, "-o", program, check=True)
    assert done.stderr == ""
    assert run(HUGEALIGN, "verify", program).returncode == 0


@pytest.mark.parametrize("words", ["gcc", "clang-19", "ccache gcc", "env gcc"])
def test_a_checkout_with_a_colon_in_its_path(words: str, bulk: Path, tmp_path: Path) -> None:
    """COMPILER_PATH cannot name it, which gcc has for its children."""
    if not all(shutil.which(word) for word in words.split()):
        pytest.skip(f"{words} is not installed")
    home = tmp_path / "a:b"
    for part in ("bin", "hugealign", "ld-scripts"):
        shutil.copytree(Path(BIN).parent / part, home / part, ignore=shutil.ignore_patterns("__pycache__"))
    main = tmp_path / "main.c"
    main.write_text(MAIN_OF_ANY)
    cache = str(tmp_path / "cache")
    command = [home / "bin/hugealign", *words.split()]
    done = run(*command, main, bulk, "-o", tmp_path / "out", check=True, CCACHE_DIR=cache)
    first = words.split(maxsplit=1)[0]
    because = f"linked without hugealign, because of the colon in {home}/hugealign; install it elsewhere"
    assert done.stderr == ("" if first == "clang-19" else f"hugealign: warning: {first}: {because}\n")
    assert (Elf(tmp_path / "out").faults() == []) == (first == "clang-19")
    assert run(*command, "-c", main, "-o", tmp_path / "main.o", check=True, CCACHE_DIR=cache).stderr == ""


def test_standard_input_reaches_the_compiler(tmp_path: Path) -> None:
    words = [str(HUGEALIGN), "gcc", "-x", "c", "-", "-o", str(tmp_path / "out")]
    subprocess.run(words, input=GOOD.encode(), env=environment(), check=True)
    assert run(tmp_path / "out", "x").returncode == 1


def test_an_almost_empty_environment(tmp_path: Path) -> None:
    work = prepare(tmp_path / "work")
    done = run("env", "-i", f"PATH={os.defpath}", HUGEALIGN, "gcc", "good.c", "-o", "good", cwd=work)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_a_link_reads_no_configuration_file(bulk: Path, tmp_path: Path) -> None:
    """Only `verify` does, which is seen the same way."""
    (tmp_path / "hugealign.toml").write_text("[verify]\n")
    (tmp_path / "main.c").write_text(MAIN_OF_ANY)

    def opened(*words: object) -> str:
        calls = ("strace", "-f", "-qq", "-e", "trace=open,openat,openat2", "-o", "calls")
        run(*calls, HUGEALIGN, *words, cwd=tmp_path, check=True)
        return (tmp_path / "calls").read_text()

    link = opened("gcc", "main.c", bulk, "-o", "out")
    assert "main.c" in link
    assert "hugealign.toml" not in link
    assert "hugealign.toml" in opened("verify", "out")


@pytest.mark.parametrize("option", ["-dumpdir", "-dumpbase", "-dumpbase-ext"])
def test_names_of_dumps_do_not_stop_a_link(option: str, bulk: Path, tmp_path: Path) -> None:
    """-dumpmachine and -dumpversion are questions; these are not."""
    (tmp_path / "main.c").write_text(MAIN_OF_ANY)
    run(HUGEALIGN, "gcc", option, "name.c", "main.c", bulk, "-o", "out", cwd=tmp_path, check=True)
    assert Elf(tmp_path / "out").faults() == []


@pytest.mark.parametrize("compiler", ["tcc", "clang-cl", "ldc2", "nvcc", "flang", "flang-new-19"])
@pytest.mark.parametrize("words", [("one.c", "-o", "one"), ("-c", "one.c")])
def test_compilers_with_another_minus_b(words: tuple[str, ...], compiler: str, tmp_path: Path) -> None:
    """They get what they were given.  Stubs, named so: of these, Debian has clang-cl and flang."""
    (tmp_path / "order").write_text("# hugealign.order/1\nmain\n")
    stub = tmp_path / compiler
    stub.write_text('#!/bin/sh\nprintf "%s\\n" "${COMPILER_PATH-none}" "$@"\n')
    stub.chmod(0o755)
    path, *given = run(HUGEALIGN, stub, *words, HUGEALIGN_PROFILE=str(tmp_path / "order")).stdout.splitlines()
    assert tuple(given) == words
    cached = tmp_path / "ccache"
    cached.write_text('#!/bin/sh\nexec "$@"\n')
    cached.chmod(0o755)
    done = run(HUGEALIGN, cached, stub, *words, HUGEALIGN_PROFILE=str(tmp_path / "order"))
    assert tuple(done.stdout.splitlines()[1:]) == words
    assert (path != "none") == (compiler in ("ldc2", "nvcc", "flang", "flang-new-19") and "-c" not in words)


@pytest.mark.parametrize(
    ("words", "status", "output"),
    [
        (("--page-size", "2M", "gcc"), 125, "--page-size: write it with its value in one word: --page-size=..."),
        (("--profile", "x", "gcc"), 125, "--profile: write it with its value in one word: --profile=..."),
        (
            ("--page-size=32M", "verify", "/bin/sh"),
            2,
            "--page-size: for a compiler or a build; the options of a command follow it: hugealign verify ...",
        ),
    ],
)
def test_an_option_in_the_wrong_place(words: tuple[str, ...], status: int, output: str) -> None:
    done = run(HUGEALIGN, *words)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", f"hugealign: error: {output}\n")


def test_order_files_by_their_first_line(tmp_path: Path) -> None:
    """The launcher looks at no other: it takes all files of tests/orders but those that have another there."""
    (tmp_path / "cc").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "cc").chmod(0o755)
    for folder in ("accept", "reject"):
        for name, expected in vectors(folder).items():
            profile = str(order_path(folder, name))
            given = run(HUGEALIGN, tmp_path / "cc", "-c", "a.c", HUGEALIGN_PROFILE=profile, check=True).stdout
            assert ("-ffunction-sections" in given) == (expected != "first line"), name


def test_no_file_of_the_profile(tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text("int one;\n")
    done = run(HUGEALIGN, "--profile=none", "gcc", "-c", "one.c", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.startswith(f"hugealign: warning: {tmp_path}/none: no such file: compiled without")


@pytest.mark.parametrize(
    "words", ["-x assembler -c one.asm", "-xassembler -c one.asm", "-c one.s", "-c one.asm", "-x assembler -c -"]
)
@pytest.mark.parametrize("compiler", ["gcc", "clang-14", "clang-19"])
def test_an_order_means_nothing_to_an_assembler(compiler: str, words: str, tmp_path: Path) -> None:
    """Linux asks `clang -Werror -c -x assembler -` what the assembler knows."""
    need(compiler)
    order = tmp_path / "server.order"
    order.write_text("# hugealign.order/1\nmain\n")
    for name in ("one.asm", "one.s"):
        (tmp_path / name).write_text(".globl one\none: ret\n")
    command = [compiler, "-Werror", *words.split(), "-o", "one.o"]
    plain = run(*command, cwd=tmp_path)
    done = run(HUGEALIGN, *command, cwd=tmp_path, HUGEALIGN_PROFILE=str(order))
    assert (done.returncode, done.stderr) == (0, plain.stderr)
    # The words of a language alone stop nothing: what follows is C.
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    command = [compiler, "-Werror", "-x", "c", "-c", "main.c", "-o", "main.o"]
    run(HUGEALIGN, *command, cwd=tmp_path, HUGEALIGN_PROFILE=str(order), check=True)
    assert ".text.main" in Elf(tmp_path / "main.o").sections


@pytest.mark.parametrize("words", ["ccache {} gcc", "sccache {} gcc", "distcc {} gcc", "ccache {} mine-gcc -o gcc"])
@pytest.mark.parametrize("second", ["env", "hugealign", "ccache"])
def test_an_order_behind_two_programs(words: str, second: str, tmp_path: Path) -> None:
    """The option is the compiler's, and no word of the program that runs it."""
    order = tmp_path / "server.order"
    order.write_text("# hugealign.order/1\nmain\n")
    first, *rest = words.format(second).split()
    (tmp_path / first).write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / first).chmod(0o755)
    for more in (["-c", "one.c"], ["one.c"]):
        done = run(HUGEALIGN, tmp_path / first, *rest, *more, cwd=tmp_path, HUGEALIGN_PROFILE=str(order))
        assert (done.stdout.split(), done.stderr) == ([*rest, *more], "")
    given = run(HUGEALIGN, tmp_path / first, "mine", "-c", "one.c", cwd=tmp_path, HUGEALIGN_PROFILE=str(order))
    assert given.stdout.split() == ["mine", "-ffunction-sections", "-c", "one.c"]
