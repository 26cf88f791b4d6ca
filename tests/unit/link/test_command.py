"""Linker command lines as literal strings."""

import pytest

from hugealign.elf.machines import X86_64
from hugealign.link.command import Command, expand, number, parse, split
from hugealign.link.linkers import KINDS

GCC = (
    "-plugin /usr/lib/gcc/x86_64-linux-gnu/12/liblto_plugin.so -plugin-opt=/usr/lib/lto-wrapper "
    "-plugin-opt=-fresolution=/tmp/ccX.res --build-id --eh-frame-hdr -m elf_x86_64 --hash-style=gnu --as-needed "
    "-dynamic-linker /lib64/ld-linux-x86-64.so.2 -pie -o server Scrt1.o -L/usr/lib/gcc -L /usr/lib main.o -lm "
    "--push-state -lgcc_s --pop-state -lc crtn.o"
)


def of(words: str) -> Command:
    return parse(words.split())


def test_a_whole_line_of_gcc() -> None:
    command = of(GCC)
    assert command.output == "server"
    assert command.machine is X86_64
    assert command.inputs == ["Scrt1.o", "main.o", "crtn.o"]
    assert command.libraries == [("m", False), ("gcc_s", False), ("c", False)]
    assert command.library_paths == ["/usr/lib/gcc", "/usr/lib"]
    assert command.hands_off is None


@pytest.mark.parametrize(
    "words",
    ["-o out", "-oout", "--output out", "--output=out", "-o first -o out"],
)
def test_output(words: str) -> None:
    assert of(f"{words} x.o").output == "out"


@pytest.mark.parametrize(
    "words",
    [
        "-r", "--relocatable", "-relocatable", "-i", "-Ur", "-N", "--omagic", "-omagic -N", "-n", "-nmagic",
        "-Ttext=0x400000", "-Ttext 0x400000", "--section-start=.text=0", "--section-start .text=0",
        "-section-start=.text=0", "-b binary", "-bbinary", "--format=binary",
        "--oformat=binary", "--oformat binary", "-m elf_i386", "-melf_i386", "-m i386pep", "--version", "--help",
        "-Ttext-segment=nonsense", "--section-ordering-file=x", "-Tdata=0x1000", "-Tbss 0x1000",
    ],
)  # fmt: skip
def test_hands_off(words: str) -> None:
    assert of(f"{words} x.o").hands_off


@pytest.mark.parametrize(
    "words",
    [
        "-rpath /x", "-rpath=/x", "--rpath-link /x", "-nostdlib", "-no-pie", "-no-dynamic-linker", "-init=foo",
        "-z now", "-znow", "-shared", "-Bsymbolic", "-export-dynamic", "-E",
        "-b elf64-x86-64", "--format=default", "-soname -r", "-h -r", "--wrap -N", "-u -n", "-e -r",
        "--retain-symbols-file -r",
        "-I /ld.so", "-plugin -r", "-Map -r", "-y -r", "--defsym -r=1",
    ],
)  # fmt: skip
def test_no_false_alarm(words: str) -> None:
    command = of(f"{words} x.o")
    assert command.hands_off is None
    assert command.inputs == ["x.o"]


@pytest.mark.parametrize("words", ["-T x.ld", "-Tx.ld", "--script x.ld", "--script=x.ld", "-script=x.ld"])
def test_scripts(words: str) -> None:
    assert of(words).scripts == ["x.ld"]


@pytest.mark.parametrize("words", ["-dT x.ld", "--default-script=x.ld"])
def test_a_default_script(words: str) -> None:
    command = of(f"-T y.ld {words}")
    assert (command.hands_off, command.scripts, command.default_script) == (None, ["y.ld"], "x.ld")


@pytest.mark.parametrize(
    ("option", "kinds"), [("--rosegment", {"lld", "mold"}), ("--no-rosegment", {"bfd", "gold"}), ("--unique", set())]
)
def test_an_option_that_names_what_a_linker_does_anyway(option: str, kinds: set[str]) -> None:
    assert {kind for kind in ("", *KINDS) if not parse([option, "x.o"], kind).hands_off} == kinds


def test_image_base_and_page_size() -> None:
    assert of("-z common-page-size=0x200000").common_page_size == 2 << 20
    assert of("-Ttext-segment=0x10000000").image_base == 0x10000000
    assert of("-Ttext-segment 400000").image_base == 400000
    assert of("--image-base=0x200000").image_base == 0x200000
    assert of("-z max-page-size=0x1000 -zmax-page-size=64k").max_page_size == 65536
    assert of("-z max-page-size=nonsense").max_page_size == 0


def test_static_state_of_libraries() -> None:
    command = of("-la -Bstatic -lb -Bdynamic -lc -static -l d --library=e")
    assert command.libraries == [("a", False), ("b", True), ("c", False), ("d", True), ("e", True)]


def test_options_at_the_end_and_odd_words() -> None:
    assert of("x.o -o").output == ""
    assert of("x.o -z").inputs == ["x.o"]
    assert parse(["", "-", "--", "x.o", "-l", ""]).inputs == ["x.o"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("a b\n\tc\r\n", ["a", "b", "c"]),
        ("'a b' \"c d\"", ["a b", "c d"]),
        (r"a\ b \"c \\d", ["a b", '"c', "\\d"]),
        ("'' \"\" x", ["", "", "x"]),
        ("a'b c'd", ["ab cd"]),
        ("'unterminated", ["unterminated"]),
        ("trailing\\", ["trailing"]),
        (r"'a\'b'", ["a'b"]),
        ("a\u3000b.o c\xa0d", ["a\u3000b.o", "c\xa0d"]),
        ("'x' a\u3000b.o\v\fc", ["x", "a\u3000b.o", "c"]),
    ],
)
def test_splitting_response_files(text: str, words: list[str]) -> None:
    assert split(text) == words


def test_expansion() -> None:
    files = {"a": "x.o @b", "b": "'y z.o' @absent"}

    def read(path: str) -> str:
        if path not in files:
            raise FileNotFoundError(path)
        return files[path]

    assert expand(["@a", "@", "w.o"], read) == ["x.o", "y z.o", "@absent", "@", "w.o"]
    files["b"] = "@a"
    with pytest.raises(RecursionError):
        expand(["@a"], read)


@pytest.mark.parametrize(("text", "value"), [("0x200000", 0x200000), ("4096", 4096), ("2M", 2 << 20), ("64k", 65536)])
def test_number(text: str, value: int) -> None:
    assert number(text) == value


@pytest.mark.parametrize("text", ["", "zz", "-5", "0x", "1" * 40])
def test_no_number(text: str) -> None:
    assert number(text) is None


def test_orders_of_the_users_own() -> None:
    for words in (["--symbol-ordering-file=x"], ["--symbol-ordering-file", "x"], ["--call-graph-ordering-file=x"]):
        assert parse([*words, "a.o"]).ordered
        assert parse([*words, "a.o"]).inputs == ["a.o"]
    assert not parse(["a.o", "-o", "symbol-ordering-file"]).ordered
