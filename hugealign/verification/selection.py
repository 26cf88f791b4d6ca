"""Which rules count in a run, and how they judge a file's report.  Pure."""

from hugealign.errors import UsageError
from hugealign.io.units import printable
from hugealign.verification.model import FileReport
from hugealign.verification.result import Accepted, FileResult
from hugealign.verification.rules import ERROR, RULES, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hugealign.verification.baseline import Baseline
    from hugealign.verification.configuration import Exempt


class Selection:
    """The rules that count, by id, the exceptions to them, and the lowest severity at which a finding fails a file."""

    __slots__ = ("_exceptions", "fail_on", "rules")

    def __init__(
        self,
        select: list[str] | None = None,
        ignore: list[str] | None = None,
        fail_on: str = ERROR,
        exceptions: "Sequence[Exempt]" = (),
        places: tuple[str, str] = ("--select", "--ignore"),
    ) -> None:
        """*select* and *ignore* are words of ids separated by commas; *places* say where these words come from.

        Raises UsageError for an unknown id, and if *select* holds none.
        """
        chosen = _ids(select, places[0]) if select else set(RULES)
        if not chosen:  # an empty variable in a script, after which every file would be ok
            raise UsageError(f"{places[0]}: no rule is named; `hugealign explain` lists them")
        self.rules = frozenset(chosen - _ids(ignore or [], places[1]))
        self.fail_on = fail_on
        self._exceptions = [(exempt, _ids(exempt.ignore.value, exempt.ignore.where)) for exempt in exceptions]

    def judge(self, report: FileReport, baseline: "Baseline | None" = None) -> FileResult:
        """Return the result of *report* under this selection, without findings that exceptions or *baseline* accept."""
        findings: list[Finding] = []
        accepted: list[Accepted] = []
        here = [
            (exempt.reason, ids) for exempt, ids in self._exceptions if report.findings and exempt.covers(report.path)
        ]
        for finding in report.findings:
            if finding.rule.id not in self.rules:
                continue
            reason = next((reason for reason, ids in here if finding.rule.id in ids), "")
            if reason or (baseline is not None and baseline.accepts(report, finding)):
                accepted.append(Accepted(finding, reason))
            else:
                findings.append(finding)
        return FileResult(report, tuple(findings), tuple(accepted), self.fail_on)


def _ids(words: list[str], option: str) -> set[str]:
    ids = {part.strip().upper() for word in words for part in word.split(",") if part.strip()}
    if unknown := sorted(ids - set(RULES)):
        raise UsageError(f"{option}: {no_rule(unknown[0])}")
    return ids


def no_rule(word: str) -> str:
    """Return the message about *word*, which is no rule's id: which rule may be meant, or where they are listed."""
    number = "".join(char for char in word if char in "0123456789").lstrip("0")
    meant = f"HA{number:0>3}"
    near = f"did you mean {meant}?" if meant in RULES else "`hugealign explain` lists them"
    return f"no rule {printable(word)}; {near}"
