"""The command line that the fuzzers share: which cases, and what failed."""

import argparse
from collections.abc import Iterable


def cases(doc: str | None) -> tuple[int, int, int]:
    """Return how many cases are asked for, the seed, and the number of the first; *doc* is the fuzzer's docstring."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="N", help="only case N")
    args = parser.parse_args()
    return (args.count, args.seed, 0) if args.only is None else (1, args.seed, args.only)


def show(failures: Iterable[str]) -> None:
    """Print the first of *failures*."""
    for failure in list(failures)[:20]:
        print(failure)
