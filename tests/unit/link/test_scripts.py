"""Linker scripts as literal strings."""

import pytest

from hugealign.link.scripts import Script, matcher, tokens


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("", []),
        ("a b;{c}", ["a", "b", ";", "{", "c", "}"]),
        ("a /* INSERT */ b", ["a", "b"]),
        ("a # INSERT\nb", ["a", "b"]),
        ('"INSERT AFTER" x', ['"INSERT AFTER"', "x"]),
        ("*(.text.*)", ["*", "(", ".text.*", ")"]),
        ("dir/*.o(.a)", ["dir/*.o", "(", ".a", ")"]),
        ("/* never closed", []),
        ('"never closed', ['"never closed']),
    ],
)
def test_tokens(text: str, result: list[str]) -> None:
    assert tokens(text) == result


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SECTIONS { .fast : { *(.fast) } } INSERT AFTER .text;",
        "SECTIONS { .a : { *(.a) } }\nINSERT /* where */ BEFORE .text;\nSECTIONS { .b : { *(.b) } } INSERT AFTER .bss",
        "/* GNU ld script */ OUTPUT_FORMAT(elf64-x86-64) GROUP ( /lib/libc.so.6 AS_NEEDED ( ld.so ) )",
        'OUTPUT_FORMAT("elf64-x86-64", "elf64-x86-64", "elf64-x86-64") ENTRY(_start)',
        "name = 4; PROVIDE(other = .); VERSION { V1 { global: a; local: *; }; }",
        'ASSERT(SIZEOF(.text) < 1M, "SECTIONS { too large }")',
    ],
)
def test_scripts_that_leave_the_layout_alone(text: str) -> None:
    assert Script(text).full == ""


@pytest.mark.parametrize(
    "text",
    [
        "SECTIONS { .text : { *(.text) } }",
        "/* do not INSERT AFTER .text */ SECTIONS { .text : { *(.text) } }",
        'SECTIONS { .text : { *(.text) } } ASSERT(1, "INSERT AFTER .text")',
        "SECTIONS { . = 0x10000; } # INSERT AFTER .text;",
        "SECTIONS { .a : { *(.a) } } SECTIONS { .b : { *(.b) } } INSERT AFTER .text;",
        "SECTIONS { .a : { *(.a) } } INSERT .text",
        "PHDRS { text PT_LOAD; } SECTIONS { .a : { *(.a) } :text } INSERT AFTER .text;",
        "MEMORY { ram : ORIGIN = 0, LENGTH = 1M }",
        "INCLUDE other.ld",
        "OUTPUT_FORMAT(binary)",
        "OUTPUT(elsewhere)",
        ". = 0x100000;",
        "SECTIONS {",
        "SECTIONS",
        "}",
        "\x00\x01 not a script",
    ],
)
def test_full_scripts(text: str) -> None:
    assert Script(text).full


@pytest.mark.parametrize(
    ("statement", "asked", "left"),
    [
        ("*(.text.one)", [".text.one"], [".text.two", ".text"]),
        ("*(.text.one .text.two)", [".text.one", ".text.two"], [".text.three"]),
        ("KEEP(*(.text.a*))", [".text.a", ".text.ab"], [".text.b"]),
        ("*(SORT_BY_NAME(.text.hot.*))", [".text.hot.x"], [".text.x"]),
        ("KEEP (*file.o (SORT_NONE(.init)))", [".init"], [".text", "file.o"]),
        ('*(".text.odd name")', [".text.odd name"], [".text.odd"]),
        ("*(EXCLUDE_FILE(*crt.o) .ctors)", [".ctors"], [".text"]),
        ("*(.[tT]ext.?)", [".text.a", ".Text.b"], [".text.ab"]),
        ("start = .; *(.a) end = ALIGN(8); BYTE(1)", [".a"], [".text"]),
        ("file.o", [".text.any"], []),
        ("*(.a) CONSTRUCTORS", [".a"], [".text"]),
    ],
)
def test_what_a_script_asks_for(statement: str, asked: list[str], left: list[str]) -> None:
    script = Script(f"SECTIONS {{ .own ALIGN(4096) : {{ {statement} }} }} INSERT BEFORE .text;")
    assert script.full == ""
    matches = matcher(script.patterns)
    assert [name for name in asked if not matches(name.encode())] == []
    assert [name for name in left if matches(name.encode())] == []
