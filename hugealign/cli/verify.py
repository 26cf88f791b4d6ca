"""``hugealign verify``: hold files against the rules of placement."""

import argparse
import os
import stat
import sys

from hugealign.elf.image import ET_CORE, ET_DYN, ET_EXEC, ET_REL, read_image
from hugealign.errors import HugealignError, NotElfError
from hugealign.units import parse_page_size, parse_size
from hugealign.verify import report, rules

_ARCHIVES = (b"!<arch>\n", b"!<thin>\n")
_NO_PROGRAM = {
    ET_REL: "an object file, which has no segments; link it first",
    ET_CORE: "a core file; give the program that dumped it",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("paths", nargs="+", metavar="FILE", help="an executable or a shared library")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="form of the report (default: text)")
    parser.add_argument("-q", "--quiet", action="store_true", help="report only files that are not ok")
    parser.add_argument("--page-size", default="2M", metavar="SIZE", help="the huge page size (default: 2M)")
    parser.add_argument(
        "--min-text",
        default="256K",
        metavar="SIZE",
        help="files with less text are ok wherever it lies (default: 256K, which a 64-entry 4 KiB iTLB covers)",
    )
    parser.add_argument(
        "--pad-threshold", default="4K", metavar="SIZE", help="a tail up to this size is ok (default: 4K)"
    )


def run(args: argparse.Namespace) -> int:
    """Check each file; 1 if one has errors, else 3 if one could not be checked, else 0."""
    policy = rules.Policy(
        parse_page_size(args.page_size, "--page-size"),
        parse_size(args.min_text, "--min-text"),
        parse_size(args.pad_threshold, "--pad-threshold"),
    )
    reports = [check_file(path, policy) for path in args.paths]
    if args.format == "json":
        sys.stdout.write(report.to_json(reports, policy.page_size))
    else:
        sys.stdout.write(report.text(reports, args.quiet))
    verdicts = {r.verdict for r in reports}
    return 1 if report.FAILED in verdicts else 3 if report.UNKNOWN in verdicts else 0


def check_file(path: str, policy: rules.Policy) -> report.FileReport:
    """Return what is known of the file at *path*; whatever is wrong with it becomes the report's reason."""
    try:
        # O_NONBLOCK: opening a FIFO that nobody writes to must not hang; without effect on regular files.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        return report.FileReport(path, reason=getattr(error, "strerror", None) or str(error))
    try:
        return _check_fd(fd, path, policy)
    except OSError as error:
        return report.FileReport(path, reason=error.strerror or str(error))
    except HugealignError as error:
        return report.FileReport(path, reason=str(error))
    finally:
        os.close(fd)


def _check_fd(fd: int, path: str, policy: rules.Policy) -> report.FileReport:
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        return report.FileReport(path, reason="a directory; give the files in it")
    if not stat.S_ISREG(mode):
        return report.FileReport(path, reason="not a regular file")
    try:
        image = read_image(fd)
    except NotElfError:
        if os.pread(fd, 8, 0) in _ARCHIVES:
            return report.FileReport(path, reason="an archive of object files; link it first")
        raise
    if image.e_type in _NO_PROGRAM:
        return report.FileReport(path, reason=_NO_PROGRAM[image.e_type])
    if image.e_type not in (ET_EXEC, ET_DYN):
        return report.FileReport(path, reason=f"ELF type {image.e_type} is neither a program nor a library")
    coverage = rules.coverage(image, policy.page_size)
    if not image.load_segments:
        return report.FileReport(path, reason="no loadable segments (a separate debug file?)")
    findings = rules.check(image, policy)
    small = coverage.text < policy.min_text
    return report.FileReport(path, coverage, findings, image.text_segments, small)
