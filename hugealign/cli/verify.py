"""``hugealign verify``: hold files against the rules of placement."""

import argparse
import os
import sys

from hugealign.units import parse_page_size, parse_size
from hugealign.verify import rules
from hugealign.verify.checking import check_fd
from hugealign.verify.formats import json, text
from hugealign.verify.model import FAILED, UNKNOWN, FileReport


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
        sys.stdout.write(json.render(reports, policy.page_size))
    else:
        sys.stdout.write(text.render(reports, args.quiet))
    verdicts = {r.verdict for r in reports}
    return 1 if FAILED in verdicts else 3 if UNKNOWN in verdicts else 0


def check_file(path: str, policy: rules.Policy) -> FileReport:
    """Return what is known of the file at *path*; whatever is wrong with it becomes the report's reason."""
    try:
        # O_NONBLOCK: opening a FIFO that nobody writes to must not hang; without effect on regular files.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        return FileReport(path, reason=getattr(error, "strerror", None) or str(error))
    try:
        return check_fd(fd, path, policy)
    finally:
        os.close(fd)
