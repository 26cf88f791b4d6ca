"""The command `verify` as functions: files in, a record of what is wrong with them out.  Prints nothing.

>>> hugealign.verify("build/server").status
0
"""

import os
from collections import Counter

from hugealign.io.progress import silent
from hugealign.records import Record
from hugealign.verification.compare import Comparison, pairs
from hugealign.verification.inputs import Step, steps
from hugealign.verification.opening import Requirements, check_path, empty
from hugealign.verification.result import FileReport, Verification
from hugealign.verification.rules import Policy
from hugealign.verification.selection import Selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hugealign.verification.baseline import Baseline

    Path = str | os.PathLike[str]
    _Checked = tuple[Step, Iterable[FileReport], Counter[str]]


class VerifyOptions(Record):
    """How files are checked.

    Attributes:
        policy: What is required of a file.
        selection: Which rules count, and which of them fail a file.
        recursive: Whether to look into directories.
        jobs: The number of processes that check in parallel.
        max_unpacked: The bytes to which a named archive may unpack; by default in proportion to its size
            (`hugealign.io.unpacking`).
        baseline: Diagnoses of an earlier report, which are accepted.
        allow_empty: Whether an archive or directory without a program is fine.
    """

    policy: Policy = Policy()
    selection: Selection = Selection()
    recursive: bool = False
    jobs: int = 1
    max_unpacked: int | None = None
    baseline: "Baseline | None" = None
    allow_empty: bool = False


_DEFAULT = VerifyOptions()


def verify(
    paths: "Path | Iterable[Path]", options: VerifyOptions = _DEFAULT, *, progress: "Callable[[str], None]" = silent
) -> Verification:
    """Check programs and libraries against the rules.

    Args:
        paths: Files, archives and, if the options say so, directories.
        options: How files are checked.
        progress: Called with the number of files that were checked so far, as words.

    Returns:
        A report for each file.  The `problem` of a report says why a file could not be checked; nothing is raised.
    """
    selection, baseline = options.selection, options.baseline
    passed: Counter[str] = Counter()
    names = [paths] if isinstance(paths, str | os.PathLike) else paths
    nothing, kept = 0, []
    for number, report in enumerate(check_all((os.fspath(name) for name in names), options, passed), 1):
        progress(f"{number:,} files")
        if options.allow_empty and report.problem and report.problem.code == "file.empty":
            nothing += 1
        else:
            kept.append(selection.judge(report, baseline))
    files = tuple(kept)
    fixed = baseline.fixed([file.path for file in files], selection.rules) if baseline else []
    return Verification(files, selection.fail_on, tuple(fixed), passed, nothing)


def compare(old: "Path", new: "Path", options: VerifyOptions = _DEFAULT) -> Comparison:
    """Compare two files, or the programs that two archives or directories have under the same names.

    Args:
        old: The file, archive or directory to compare with.
        new: The one to judge.
        options: How files are checked; *new* is worse by the rules that fail a file.

    Returns:
        A pair for each name, with what became better and worse.
    """

    def side(path: "Path") -> list[tuple[str, FileReport]]:
        word = os.fspath(path)
        files = verify(word, options).files
        return [(file.path.removeprefix(word).lstrip("/"), file) for file in files]

    fail_on = options.selection.fail_on
    return Comparison(tuple(pairs(side(new), side(old), fail_on)), fail_on)


def check_all(paths: "Iterable[str]", options: VerifyOptions, passed: "Counter[str]") -> "Iterator[FileReport]":
    """Yield a report on each program in *paths*, in their order, and on each path without a program.

    *passed* counts the skipped files by kind.
    """
    requirements = Requirements(options.policy, options.max_unpacked)
    todo = steps(paths, recursive=options.recursive)
    if options.jobs > 1:
        from hugealign.verification.parallel import results

        done: Iterator[_Checked] = results(todo, requirements, options.jobs)
    else:
        done = _serial(todo, requirements)
    reports, below = 0, Counter[str]()
    for step, checked, counts in done:
        for report in checked:
            reports += 1
            yield report
        counts.update(step.passed or {})
        passed.update(counts)
        below.update(counts)
        if step.last and not reports:
            yield FileReport(step.top, problem=empty(step.top, below))
        if step.last or not step.top:
            reports, below = 0, Counter()


def _serial(todo: "Iterable[Step]", requirements: Requirements) -> "Iterator[_Checked]":
    for step in todo:
        passed: Counter[str] = Counter()
        yield step, (report for task in step.tasks for report in check_path(task, requirements, passed)), passed
