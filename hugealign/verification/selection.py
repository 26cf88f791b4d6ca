"""Which rules count in a run, and how they judge a file's report.  Pure."""

from hugealign.diagnosis.catalogue import ERROR, codes, rules
from hugealign.diagnosis.values import Diagnosis
from hugealign.errors import UsageError
from hugealign.io.units import hint, printable
from hugealign.verification.result import Accepted, FileReport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hugealign.verification.baseline import Baseline
    from hugealign.verification.configuration import Exempt


class Selection:
    """The rules that count, by code, and the lowest severity at which one fails a file.

    Attributes:
        select: Words of codes separated by commas: only these rules count.
        ignore: The same: all rules but these count.
        fail_on: The severity from which a diagnosis fails a file: error, warning, note, or never.
        exceptions: Diagnoses of some files that are accepted, with the reason.
        places: Where the words of *select* and of *ignore* come from, for errors.

    Raises:
        UsageError: A code is unknown, or *select* is empty.
    """

    __slots__ = ("_exceptions", "fail_on", "rules")

    def __init__(
        self,
        select: list[str] | None = None,
        ignore: list[str] | None = None,
        fail_on: str = ERROR,
        exceptions: "Sequence[Exempt]" = (),
        places: tuple[str, str] = ("--select", "--ignore"),
    ) -> None:
        chosen = _codes(select, places[0]) if select else set(rules())
        if not chosen:  # an empty variable in a script, after which every file would be ok
            raise UsageError(f"{places[0]}: no rule is named; `hugealign explain` lists them")
        self.rules = frozenset(chosen - _codes(ignore or [], places[1]))
        self.fail_on = fail_on
        self._exceptions = [(exempt, _codes(exempt.ignore.value, exempt.ignore.where)) for exempt in exceptions]

    def judge(self, report: FileReport, baseline: "Baseline | None" = None) -> FileReport:
        """Return *report* by this selection, without the diagnoses that exceptions or *baseline* accept."""
        counting: list[Diagnosis] = []
        accepted: list[Accepted] = []
        here = [
            (exempt.reason, codes)
            for exempt, codes in self._exceptions
            if report.diagnoses and exempt.covers(report.path)
        ]
        for diagnosis in report.diagnoses:
            if diagnosis.code not in self.rules:
                continue
            reason = next((reason for reason, codes in here if diagnosis.code in codes), "")
            if reason or (baseline is not None and baseline.accepts(diagnosis)):
                accepted.append(Accepted(diagnosis, reason))
            else:
                counting.append(diagnosis)
        return report.changed(diagnoses=tuple(counting), accepted=tuple(accepted), fail_on=self.fail_on)


def _codes(words: list[str], option: str) -> set[str]:
    codes = {part.strip().upper() for word in words for part in word.split(",") if part.strip()}
    if unknown := sorted(codes.difference(rules())):
        raise UsageError(f"{option}: {no_rule(unknown[0])}")
    return codes


def no_rule(word: str) -> str:
    """Return the message about *word*, which is not a code: a similar code, or where all are listed."""
    number = "".join(char for char in word if char in "0123456789").lstrip("0")
    meant = f"HA{number:0>3}"
    near = f"; did you mean {meant}?" if meant in rules() else "" if number else hint(word, codes())
    return f"no rule {printable(word)}{near or '; `hugealign explain` lists them'}"
