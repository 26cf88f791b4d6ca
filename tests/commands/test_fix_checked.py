"""Files that something checks are left alone, whatever would fix them, and the one sentence says what checks them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hugealign.diagnosis.refusal import RefusalError
from hugealign.elf.image import read_file
from hugealign.fixing import gains, remedies
from hugealign.fixing.fix import FIX, FixOptions, fix, fix_into
from hugealign.io.regular import named
from hugealign.run import copies
from tests.support import HUGEALIGN, PAGE, run

NAME = "libbulk.so.1.2.3"
HMAC = "0123456789abcdef" * 4


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("plain")
    source = directory / "text.s"
    source.write_text('.text\n.globl code\ncode: .fill 3 << 20, 1, 0xc3\n.section .note.GNU-stack,"",@progbits\n')
    words = ("-shared", "-nostdlib", "-Wl,-z,max-page-size=0x1000", "-Wl,-soname,libbulk.so.1")
    run("gcc", *words, source, "-o", directory / NAME, check=True)
    return directory / NAME


def beside(name: str, text: str = HMAC) -> Callable[[Path], None]:
    def make(file: Path) -> None:
        there = file.parent / name
        there.parent.mkdir(exist_ok=True)
        there.write_text(text)

    return make


def section(name: str, size: int) -> Callable[[Path], None]:
    def make(file: Path) -> None:
        digest = file.with_name("digest")
        digest.write_bytes(bytes(size))
        run("objcopy", "--add-section", f"{name}={digest}", file, check=True)

    return make


def appended(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"PKCS7" + bytes(12) + b"~Module signature appended~\n")


def among_many(file: Path) -> None:
    for number in range(99):
        beside(f"{number}.sha256")(file)
    beside("md5sum", f"{HMAC}  {NAME}\n")(file)


#: What checks a file, and the fact that says so: the end of its path, or something else.
CHECKS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "NSS": (beside("libbulk.so.1.2.chk"), "file", "libbulk.so.1.2.chk"),
    "NSS, without .so": (beside("libbulk.chk"), "file", "libbulk.chk"),
    "libgcrypt": (beside(".libbulk.so.1.hmac"), "file", ".libbulk.so.1.hmac"),
    "OpenSSL": (beside(f".{NAME}.hmac"), "file", f".{NAME}.hmac"),
    "GnuTLS, for another library": (
        beside(".libother.so.30.hmac", f"[global]\nformat-version = 1\n[libbulk.so.1]\nhmac = {HMAC}\n"),
        "file",
        ".libother.so.30.hmac",
    ),
    "sha256sum": (beside(f"{NAME}.sha256", f"{HMAC}  {NAME}\n"), "file", f"{NAME}.sha256"),
    "a list": (beside("SHA256SUMS", f"{HMAC} *{NAME}\n"), "file", "SHA256SUMS"),
    "a list of BSD's": (beside("checksums.txt", f"SHA256 ({NAME}) = {HMAC}\n"), "file", "checksums.txt"),
    "a list above": (beside("../SHASUMS256.txt", f"{HMAC}  ./lib/{NAME}\n"), "file", "SHASUMS256.txt"),
    "a list of a release": (beside("release-1.sha256", f"{HMAC}  {NAME}\n"), "file", "release-1.sha256"),
    "a list of a hidden name": (beside(".sha512sums", f"{HMAC}  {NAME}\n"), "file", ".sha512sums"),
    "a signed list": (beside("SHA256SUMS.asc", f"Hash: SHA512\n\n{HMAC}  {NAME}\n"), "file", "SHA256SUMS.asc"),
    "a list called by its digest": (beside("SHA512", f"{HMAC}  {NAME}\n"), "file", "SHA512"),
    "a list of hashes": (beside("../hashes.txt", f"{HMAC}  lib/{NAME}\n"), "file", "hashes.txt"),
    "a list among many digests": (among_many, "file", "md5sum"),
    "RIPEMD": (beside(f"{NAME}.rmd160"), "file", f"{NAME}.rmd160"),
    "PGP": (beside(f"{NAME}.asc"), "file", f"{NAME}.asc"),
    "a signature": (beside(f"{NAME}.sig"), "file", f"{NAME}.sig"),
    "strongSwan": (beside("../libchecksum.so"), "file", "libchecksum.so"),
    "a note": (section(".note.fdo.integrity", 64), "section", ".note.fdo.integrity"),
    "an HMAC inside": (section(".rodata1", 32), "section", ".rodata1"),
    "a module": (appended, "protection", "module signature"),
}


def placed(plain: Path, tmp_path: Path) -> Path:
    file = tmp_path / "lib" / NAME
    file.parent.mkdir()
    return Path(shutil.copy(plain, file))


def assert_left_alone(file: Path, fact: str, end: str) -> None:
    """No way of fixing it changes the file, and each that says why says this."""
    before = file.read_bytes()
    for options in (FixOptions(), FixOptions(in_place=True), FixOptions(output=f"{file}.new"), FixOptions("shift")):
        with pytest.raises(RefusalError) as caught:
            fix(str(file), options)
        result = caught.value.diagnosis
        assert (result.code, [*result.facts]) == ("fix.checked", [fact])
        assert str(result.facts[fact]).endswith(end)
    with open(os.devnull, "r+b") as null, pytest.raises(RefusalError):
        fix_into(str(file), null.fileno(), FixOptions())
    assert gains.gather([named(str(file))], FixOptions()) == []
    assert remedies.diagnose(str(file), PAGE).code == "fix.checked"
    with file.open("rb") as open_file:  # run, stage, enable, and containers
        assert copies.source(str(file), open_file.fileno(), copies.Fixes()) is None
    run(HUGEALIGN, "fix", "-r", file.parent, check=True)
    assert file.read_bytes() == before


@pytest.mark.parametrize("name", CHECKS)
def test_is_left_alone(plain: Path, tmp_path: Path, name: str) -> None:
    make, fact, end = CHECKS[name]
    file = placed(plain, tmp_path)
    make(file)
    assert_left_alone(file, fact, end)


@pytest.mark.skipif(os.geteuid() != 0, reason="the kernel lets only root set security attributes")
@pytest.mark.parametrize("attribute", ["security.ima", "security.evm"])
def test_the_kernel_checks_it(plain: Path, tmp_path: Path, attribute: str) -> None:
    file = placed(plain, tmp_path)
    try:
        os.setxattr(file, attribute, b"\x04\x04" + bytes(32))
    except OSError as error:
        pytest.skip(f"{attribute} cannot be set here: {error.strerror}")
    assert_left_alone(file, "attribute", attribute)


@pytest.mark.parametrize(
    "other",
    [
        beside(".libbulk.so.2.hmac"),
        beside("libbulk.txt"),
        beside("sha256sum", f"{HMAC} is what the program sha256sum prints of {NAME}"),
        beside("release.sha256"),
        beside("SHA256SUMS", f"{HMAC}  other-{NAME}\n{HMAC}  {NAME}.gz\n"),
        beside("../SHA256SUMS", f"{HMAC}  {NAME}\n"),
        section(".rodata1", 64),
    ],
)
def test_of_something_else(plain: Path, tmp_path: Path, other: Callable[[Path], None]) -> None:
    file = placed(plain, tmp_path)
    other(file)
    assert fix(str(file)).action == FIX


def test_of_a_program_that_checks(plain: Path, tmp_path: Path) -> None:
    """sha256sum fails for a fixed file, which --undo restores; and what is fixed already stays."""
    file = placed(plain, tmp_path)
    listing = file.with_name("SHA256SUMS")
    check = ("sha256sum", "-c", "--status", listing)
    listing.write_text(run("sha256sum", NAME, cwd=file.parent, check=True).stdout)
    assert run(HUGEALIGN, "fix", "--in-place", file).returncode == 1
    run(*check, cwd=file.parent, check=True)
    listing.rename(tmp_path / "away")
    run(HUGEALIGN, "fix", "--in-place", file, check=True)
    (tmp_path / "away").rename(listing)
    assert run(*check, cwd=file.parent).returncode == 1
    run(HUGEALIGN, "fix", "--in-place", file, check=True)
    run(HUGEALIGN, "fix", "--undo", file, check=True)
    run(*check, cwd=file.parent, check=True)


def test_a_list_without_end(plain: Path, tmp_path: Path) -> None:
    """Lists that are not lists, or long, cost little."""
    file = placed(plain, tmp_path)
    os.mkfifo(file.with_name("SHA1SUMS"))
    file.with_name("SHA256SUMS").write_bytes(b"0" * 40 + b" " * (1 << 22))
    file.with_name("SHA512SUMS").write_bytes(b"(" * (1 << 22))
    assert read_file(file).sections
    assert fix(str(file)).action == FIX
