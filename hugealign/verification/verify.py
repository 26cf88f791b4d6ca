"""The command `verify` as functions: files in, a record of the findings out.  Prints nothing.

>>> hugealign.verify("build/server").status
0
"""

import os

from hugealign.errors import UsageError
from hugealign.io.progress import silent
from hugealign.io.units import printable
from hugealign.verification.archives.kinds import Counts
from hugealign.verification.compare import Comparison, pairs
from hugealign.verification.inputs import Begin, End, Step, steps
from hugealign.verification.model import FileReport
from hugealign.verification.opening import NO_PROGRAM, Terms, check_path, nothing
from hugealign.verification.result import FileResult, Verification
from hugealign.verification.rules import Policy
from hugealign.verification.selection import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hugealign.verification.baseline import Baseline

    Path = str | os.PathLike[str]


def verify(
    paths: "Path | Iterable[Path]",
    policy: Policy | None = None,
    selection: Selection | None = None,
    *,
    recursive: bool = False,
    jobs: int = 1,
    max_unpacked: int | None = None,
    baseline: "Baseline | None" = None,
    allow_empty: bool = False,
    progress: "Callable[[str], None]" = silent,
) -> Verification:
    """Check the programs and libraries in *paths* against the rules: files, archives and, if *recursive*, directories.

    *policy* says what is required of a file, *selection* which rules count and which findings fail.  *jobs* processes
    check in parallel; a named archive may unpack to *max_unpacked* bytes,
    by default in proportion to its size (`hugealign.io.unpacking`).  With *allow_empty*, archives and directories
    without a program are only counted.  *progress* is told how many files were checked.  If a file cannot be checked,
    the `reason` of its result says why; that never raises an exception.
    """
    policy, selection = policy or Policy(), selection or Selection()
    counts = Counts()
    names = [paths] if isinstance(paths, str | os.PathLike) else paths
    reports = check_all(
        (os.fspath(name) for name in names),
        policy,
        recursive=recursive,
        jobs=jobs,
        max_unpacked=max_unpacked,
        counts=counts,
    )
    empty, kept = 0, []
    for number, report in enumerate(reports, 1):
        progress(f"{number:,} files")
        if allow_empty and report.reason.startswith(NO_PROGRAM):
            empty += 1
        else:
            kept.append(selection.judge(report, baseline))
    files = tuple(kept)
    fixed = baseline.fixed([file.report.path for file in files], selection.rules) if baseline else []
    return Verification(files, policy.page_size, selection.fail_on, tuple(fixed), counts.skipped(), empty)


def compare(
    new: "Sequence[Path]",
    old: "Sequence[Path]",
    policy: Policy | None = None,
    selection: Selection | None = None,
    *,
    recursive: bool = False,
    jobs: int = 1,
    max_unpacked: int | None = None,
) -> Comparison:
    """Compare each of *new* with the *old* in the same position; the files in them, with those of the same name."""
    policy, selection = policy or Policy(), selection or Selection()
    if len(new) != len(old):
        raise UsageError(f"verify: {len(new)} FILE and {len(old)} OLD; give one OLD for each FILE")

    def side(path: "Path") -> list[tuple[str, FileResult]]:
        word = os.fspath(path)
        files = verify(word, policy, selection, recursive=recursive, jobs=jobs, max_unpacked=max_unpacked).files
        return [(file.report.path.removeprefix(word).lstrip("/"), file) for file in files]

    compared = [
        pair
        for after, before in zip(new, old, strict=True)
        for pair in pairs(side(after), side(before), selection.fail_on, policy)
    ]
    return Comparison(tuple(compared), policy.page_size, selection.fail_on)


def policy_for(page_size: int, min_text: int, cpu: str = "", option: str = "--cpu") -> Policy:
    """Return the policy with these sizes, in bytes, for the processor called *cpu*, which *option* named.

    Raises UsageError.
    """
    if not cpu:
        return Policy(page_size, min_text)
    from hugealign.system import processors as table

    found = table.find(cpu)
    if not found.itlb_2m:
        raise UsageError(f"{option}: no source gives the 2 MiB instruction TLB entries of {printable(found.name)}")
    return Policy(page_size, min_text, cpu=found.name, itlb_2m=found.itlb_2m)


def check_all(
    paths: "Iterable[str]",
    policy: Policy,
    *,
    recursive: bool = False,
    jobs: int = 1,
    max_unpacked: int | None = None,
    counts: Counts | None = None,
) -> "Iterator[FileReport]":
    """Yield a report per program in *paths*, in their order, and a report on each path that holds none.

    *recursive* allows directories; *jobs* processes check in parallel; *counts* adds up what was passed over.
    """
    counts = Counts() if counts is None else counts
    terms = Terms(policy, max_unpacked)
    todo = steps(paths, recursive=recursive)
    if jobs > 1:
        from hugealign.verification.parallel import results

        done = results(todo, terms, jobs)
    else:
        done = _serial(todo, terms)
    before, reports = Counts(), 0
    for step in done:
        if isinstance(step, Counts):
            counts.update(step)
        elif isinstance(step, Begin):
            before, reports = Counts(counts), 0
        elif isinstance(step, FileReport):
            reports += 1
            yield step
        elif not reports:
            yield FileReport(step.path, reason=nothing(Counts(counts - before)))


def _serial(todo: "Iterable[Step]", terms: Terms) -> "Iterator[Begin | End | FileReport | Counts]":
    for step in todo:
        if isinstance(step, list):
            counts = Counts()
            for task in step:
                yield from check_path(task, terms, counts)
            yield counts
        else:
            yield step
