"""`hugealign fix` takes the strongest level that is safe, says why not a stronger one, and verify agrees."""

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.fixrecord import ALIGN, SEPARATE, SHIFT
from hugealign.elf.image import PT_DYNAMIC, PT_GNU_PROPERTY, PT_LOAD, read_file
from hugealign.fixing.fix import FIX, NOTHING, FixOptions, fix
from hugealign.run import copies
from tests.documents import check
from tests.link.bulk import bulk_object
from tests.support import HUGEALIGN, PAGE, Elf, need, need_compiler, run, worded

LLD = ("-fuse-ld=lld", "-B/usr/lib/llvm-19/bin")
PT_NOTE = 4
PLAIN = "-Wl,-z,max-page-size=0x1000"
#: How a program is linked, and what becomes of it: the level that is taken, and why no stronger one is.
LAYOUTS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "bfd": (("-pie",), SEPARATE, ""),
    "bfd headers with text": (("-pie", "-Wl,-z,noseparate-code"), SEPARATE, ""),
    "bfd fixed": (("-no-pie",), SHIFT, "fix.fixed-address"),
    "bfd static": (("-static",), SHIFT, "fix.fixed-address"),
    "bfd static pie": (("-static-pie",), SHIFT, "fix.unmoved-symbol"),
    "bfd profiled": (("-pie", "-pg"), SHIFT, "fix.unmoved-symbol"),
    "lld": (("-pie", *LLD), SEPARATE, ""),
    "lld with a tag for text relocations": (("-pie", *LLD, "-Wl,-z,notext"), SEPARATE, ""),
    "lld fixed": (("-no-pie", *LLD), SHIFT, "fix.fixed-address"),
    "mold": (("-pie", "-fuse-ld=mold"), SEPARATE, ""),
    "mold fixed": (("-no-pie", "-fuse-ld=mold"), SHIFT, "fix.fixed-address"),
    "gold": (("-pie", "-fuse-ld=gold"), SEPARATE, ""),
    "patched": (("-pie",), SEPARATE, ""),
    "patched in pages": (("-pie", "-g"), SEPARATE, ""),
    "patched lld": (("-pie", *LLD), SEPARATE, ""),
    "unknown tag": (("-pie",), SHIFT, "fix.check"),
    "patched fixed": (("-no-pie",), SHIFT, "fix.fixed-address"),
}


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Link 6 MiB of text in the way of that name."""
    place = tmp_path_factory.mktemp("default")
    bulk = bulk_object(place, 6000)
    (place / "main.c").write_text(
        "unsigned big_sum(void); extern const char *names[]; int main(void) { return big_sum() != 17997000u; }\n"
    )

    def link(name: str) -> Path:
        words, _, _ = LAYOUTS[name]
        for linker in ("gold", "mold"):
            if f"-fuse-ld={linker}" in words and not shutil.which(f"ld.{linker}"):
                pytest.skip(f"ld.{linker} is not installed")
        if words[-2:] == LLD and not Path("/usr/lib/llvm-19/bin/ld.lld").exists():
            pytest.skip("LLD 19 is not installed")
        path = place / name.replace(" ", "-")
        if not path.exists():
            run("gcc", *words, place / "main.c", bulk, PLAIN, "-o", path, check=True)
            if name.startswith("patched"):
                pages = () if name == "patched in pages" else ("--page-size", "2097152")
                for change in ("--set-rpath", "--add-rpath"):  # the second one appends to the first
                    run("patchelf", *pages, change, f"/{'r' * 200}", path, check=True)
            if name == "unknown tag":
                add_tag(path)
        return path

    return link


def add_tag(path: Path) -> None:
    """Add an entry to the dynamic section that no loader knows: by its number it is a pointer, but to nowhere."""
    image, data = read_file(path), bytearray(path.read_bytes())
    section = next(s for s in image.segments if s.p_type == PT_DYNAMIC)
    end = next(at for at in range(section.p_offset, len(data), 16) if not any(data[at : at + 32]))
    struct.pack_into("<QQ", data, end, 0x6FFFFE50, 1 << 40)
    path.write_bytes(data)


def report(*words: object, status: int = 0) -> dict[str, Any]:
    """Return what fix says of one file."""
    done = run(HUGEALIGN, "fix", "--json", *words)
    assert done.returncode == status, done.stderr
    document: dict[str, Any] = check(done.stdout)
    return document


def assert_verified(path: Path) -> None:
    """What a fix can do no better is not a failure."""
    done = run(HUGEALIGN, "verify", "--json", path)
    (result,) = json.loads(done.stdout)["files"]
    assert (done.returncode, [d for d in result["diagnoses"] if d["severity"] == "error"]) == (0, [])
    assert result["coverage"]["windows"] > 0
    assert "--undo restores the old file" in run(HUGEALIGN, "verify", path).stdout


@pytest.mark.parametrize("name", LAYOUTS)
def test_strongest_that_is_safe(name: str, make: Callable[[str], Path], tmp_path: Path) -> None:
    _, level, refused = LAYOUTS[name]
    plain, fixed = make(name), tmp_path / "fixed"
    (done,) = report(plain, "-o", fixed)["files"]
    plan, ways = done["plan"], done["ways"]
    assert (done["action"], plan["level"]) == (FIX, level)
    assert [(way["level"], way["refused"] and way["refused"]["code"]) for way in ways] == [
        (SEPARATE, refused or None),
        *([(SHIFT, None)] if refused else []),
    ]
    gained = plan["covered_bytes"] - plan["covered_bytes_before"]
    assert plan["executable_bytes"] <= gained // 4 if refused else plan["executable_bytes"] == 0
    assert plan["windows"] >= 2
    assert run(fixed).returncode == 0
    assert Elf(fixed).lacks(Elf(plain)) == []
    assert_verified(fixed)
    run("sh", "-c", '"$0" fix "$1" -o - >"$2"', HUGEALIGN, plain, tmp_path / "stdout", check=True)
    assert (tmp_path / "stdout").read_bytes() == fixed.read_bytes()
    # A dry run promises just that.
    (promised,) = report("--dry-run", plain)["files"]
    assert (promised["plan"], promised["ways"][: len(ways)], promised["size"]) == (plan, ways, done["size"])
    # Again is nothing, and back is what it was.
    assert report("--in-place", fixed)["files"][0]["action"] == NOTHING
    run(HUGEALIGN, "fix", "--undo", fixed, check=True)
    assert fixed.read_bytes() == plain.read_bytes()
    # A copy for `run` and `stage` is the same file.
    with plain.open("rb") as file:
        origin = copies.source(str(plain), file.fileno(), copies.Fixes())
        assert origin
        assert origin.output
        assert (origin.windows, origin.size) == (plan["windows"], done["size"])


def test_a_library_that_patchelf_enlarged(make: Callable[[str], Path], tmp_path: Path) -> None:
    """Behind the last segment of the linker, the file has symbols and debug information, and memory has nothing."""
    need("patchelf")
    test_strongest_that_is_safe("patched in pages", make, tmp_path)
    loads = [s for s in read_file(tmp_path / "fixed").segments if s.p_type == PT_LOAD]
    assert len({s.p_vaddr - s.p_offset for s in loads}) > 1


def test_a_program_header_for_what_is_not_loaded(make: Callable[[str], Path], tmp_path: Path) -> None:
    """It describes the same bytes afterwards, which no address leads to."""
    path, fixed = tmp_path / "plain", tmp_path / "fixed"
    data = bytearray(make("bfd").read_bytes())
    image = read_file(make("bfd"))
    header = next(s.header for s in image.segments if s.p_type == PT_GNU_PROPERTY)
    comment = next(s for s in image.sections if s.name == ".comment")
    struct.pack_into(
        "<IIQQQQQQ", data, header, PT_NOTE, 4, comment.sh_offset, 0, 0, comment.sh_size, comment.sh_size, 1
    )
    path.write_bytes(data)
    (done,) = report(path, "-o", fixed)["files"]
    assert done["plan"]["level"] == SEPARATE
    for file in (path, fixed):
        note = next(s for s in read_file(file).segments if s.p_type == PT_NOTE and not s.p_vaddr)
        assert file.read_bytes()[note.p_offset :].startswith(b"GCC: ")


def test_a_level_whose_file_fails_its_check(make: Callable[[str], Path], tmp_path: Path) -> None:
    """The next level is taken, and every way to ask says the same; if this level alone is wanted, it is refused."""
    test_strongest_that_is_safe("unknown tag", make, tmp_path)
    plain = make("unknown tag")
    for words in (("--dry-run",), ("-o", tmp_path / "out")):
        (error,) = report(f"--level={SEPARATE}", plain, *words, status=1)["errors"]
        assert error["diagnosis"]["code"] == "fix.check"
    assert not (tmp_path / "out").exists()


def test_both_are_shown_side_by_side(make: Callable[[str], Path]) -> None:
    (planned,) = report("--dry-run", make("bfd"))["files"]
    separate, shift = (way["plan"] for way in planned["ways"])
    assert planned["plan"] == separate
    assert (separate["level"], shift["level"]) == (SEPARATE, SHIFT)
    assert shift["executable_bytes"] > separate["executable_bytes"] == 0
    output = run(HUGEALIGN, "fix", "--dry-run", make("bfd"), check=True).stdout
    assert [line.split()[0] for line in output.splitlines()[-3:]] == ["--level", SEPARATE, SHIFT]
    output = run(HUGEALIGN, "fix", "--dry-run", make("bfd fixed"), check=True).stdout
    assert f"  separate  {worded('fix.fixed-address')}" in output.splitlines()


def test_text_of_less_than_a_window(tmp_path: Path) -> None:
    """Only a separation serves it: a level that does not names the one that does."""
    (tmp_path / "main.c").write_text("unsigned big_sum(void); int main(void) { return big_sum() != 44850u; }\n")
    plain, fixed = tmp_path / "plain", tmp_path / "fixed"
    run("gcc", "-pie", tmp_path / "main.c", bulk_object(tmp_path, 300), PLAIN, "-o", plain, check=True)
    for level in (SHIFT, ALIGN):
        with pytest.raises(RefusalError) as caught:
            fix(str(plain), FixOptions(level))
        result = caught.value.diagnosis
        assert (result.code, result.facts) == ("fix.no-window", {"page_size": PAGE, "higher": SEPARATE})
        assert result.remedy
        assert result.remedy.kind == "level"
    done = fix(str(plain), FixOptions(output=str(fixed)))
    assert done.plan
    assert (done.plan.level, done.plan.windows, done.plan.executable) == (SEPARATE, 1, 0)
    assert run(fixed).returncode == 0
    assert_verified(fixed)


def test_limit(make: Callable[[str], Path], tmp_path: Path) -> None:
    """--max-executable bounds what shift takes, and 0 leaves boundaries where data follow."""
    whole, bounded = (
        report(make("bfd fixed"), "-o", tmp_path / f"out{limit}", f"--max-executable={limit}")["files"][0]
        for limit in ("1G", "0")
    )
    assert (whole["action"], bounded["action"]) == (FIX, NOTHING)
    assert bounded["plan"]["executable_bytes"] == 0 < whole["plan"]["executable_bytes"]
    assert_verified(tmp_path / "out1G")
    done = run(HUGEALIGN, "fix", "--dry-run", "--max-executable=-1", make("bfd"))
    assert (done.returncode, done.stdout) == (2, "")


def test_data_that_cost_too_much(tmp_path: Path) -> None:
    """Where a text would get its window for too many data only, it is said what to allow, and that helps."""
    (tmp_path / "main.c").write_text("unsigned big_sum(void); int main(void) { return big_sum() != 1124250u; }\n")
    data = tmp_path / "data.s"
    data.write_text('.section .rodata\n.fill 0x100000, 1, 7\n.section .note.GNU-stack,"",@progbits\n')
    plain, fixed = tmp_path / "plain", tmp_path / "fixed"
    run("gcc", "-no-pie", tmp_path / "main.c", data, bulk_object(tmp_path, 1500), PLAIN, "-o", plain, check=True)
    (error,) = report("--dry-run", plain, status=1)["errors"]
    result = error["diagnosis"]
    assert (result["code"], result["remedy"]["kind"]) == ("fix.no-window", "more-executable")
    (done,) = report(plain, "-o", fixed, f"--max-executable={result['facts']['data']}")["files"]
    assert (done["plan"]["windows"], done["plan"]["executable_bytes"]) == (1, result["facts"]["data"])
    assert run(fixed).returncode == 0
    assert_verified(fixed)


def test_some_windows_already(tmp_path: Path) -> None:
    """A program that was linked for windows, but not padded, gains its head and tail, and so does its copy."""
    need_compiler("gcc")
    (tmp_path / "main.c").write_text("unsigned big_sum(void); int main(void) { return big_sum() != 17997000u; }\n")
    plain = tmp_path / "plain"
    words = ("-pie", tmp_path / "main.c", bulk_object(tmp_path, 6000), "-Wl,-z,max-page-size=0x200000")
    run("gcc", *words, "-o", plain, check=True)
    done = fix(str(plain), FixOptions(output=str(tmp_path / "fixed")))
    assert done.plan
    assert 0 < done.plan.windows_before < done.plan.windows
    assert (done.plan.level, done.plan.executable) == (SEPARATE, 0)
    with plain.open("rb") as file:
        origin = copies.source(str(plain), file.fileno(), copies.Fixes())
        assert origin
        assert origin.windows == done.plan.windows
    assert_verified(tmp_path / "fixed")
