"""Before and after: two reports on what should be the same file.  Pure."""

from collections import Counter

from hugealign.diagnosis.catalogue import ERROR
from hugealign.diagnosis.values import Diagnosis
from hugealign.elf.coverage import Coverage
from hugealign.records import Record
from hugealign.verification.result import NEVER, UNKNOWN, FileReport, at_or_above

BETTER, SAME, WORSE = "better", "same", "worse"


class Pair(Record):
    """One file in its new and its old form; None if that is missing."""

    new: FileReport | None
    old: FileReport | None
    fail_on: str

    JSON = "verdict worse.diagnoses=graver worse.coverage=lower new old gained lost"

    @property
    def gained(self) -> list[Diagnosis]:
        """Diagnoses that only the new file has."""
        return _without(self.new, self.old)

    @property
    def lost(self) -> list[Diagnosis]:
        """Diagnoses that only the old file has."""
        return _without(self.old, self.new)

    @property
    def graver(self) -> bool:
        """Whether a diagnosis that only the new file has is grave enough to count."""
        return any(at_or_above(diagnosis, self.fail_on) for diagnosis in self.gained)

    @property
    def lower(self) -> bool:
        """Whether less of the text is in whole windows."""
        return bool(self.new and self.old and _lower(self.new, self.old))

    @property
    def verdict(self) -> str:
        """One of `better`, `same`, `worse`, `unknown` (a side could not be checked)."""
        if any(side and side.problem for side in (self.new, self.old)):
            return UNKNOWN
        if self.graver or self.lower:
            return WORSE
        if self.new is None:
            return SAME
        new, old = (side.coverage if side else None for side in (self.new, self.old))
        more = new is not None and old is not None and _share(new, old) > _share(old, new)
        return BETTER if (self.lost and not self.gained) or more else SAME


class Comparison(Record):
    """Files compared with older ones."""

    pairs: tuple[Pair, ...]
    fail_on: str = ERROR

    SCHEMA = "hugealign.compare/1"
    JSON = "pairs summary"

    @property
    def summary(self) -> dict[str, int]:
        """How many pairs have each verdict."""
        verdicts = [pair.verdict for pair in self.pairs]
        return {verdict: verdicts.count(verdict) for verdict in (BETTER, SAME, WORSE, UNKNOWN)}

    @property
    def status(self) -> int:
        """The exit status: 1 if a pair got worse, else 3 if one could not be checked, else 0."""
        verdicts = {pair.verdict for pair in self.pairs}
        if WORSE in verdicts and self.fail_on != NEVER:
            return 1
        return 3 if UNKNOWN in verdicts or not self.pairs else 0


def pairs(new: list[tuple[str, FileReport]], old: list[tuple[str, FileReport]], fail_on: str) -> list[Pair]:
    """Return the pairs of *new* and *old* files, which are (name within its argument, outcome).

    If there is one file on each side, these are a pair whatever their names.
    """
    if len(new) == len(old) == 1:
        return [Pair(new[0][1], old[0][1], fail_on)]
    before, after = dict(old), dict(new)
    names = list(dict.fromkeys([*after, *before]))
    return [Pair(after.get(name), before.get(name), fail_on) for name in names]


def _without(side: FileReport | None, other: FileReport | None) -> list[Diagnosis]:
    """Return the diagnoses of *side* that *other* lacks, by rule and protection of the segment."""
    left = Counter(map(_kind, other.diagnoses if other else ()))
    rest = []
    for diagnosis in side.diagnoses if side else ():
        left[_kind(diagnosis)] -= 1
        if left[_kind(diagnosis)] < 0:
            rest.append(diagnosis)
    return rest


def _kind(diagnosis: Diagnosis) -> tuple[str, object]:
    return diagnosis.code, diagnosis.facts["flags"]


def _lower(new: "FileReport", old: "FileReport") -> bool:
    """Return whether coverage sank by more than the rules tolerate: small text, a tail below the pad threshold."""
    if not new.coverage or not old.coverage or new.small:
        return False
    if new.coverage.text - new.coverage.huge <= new.policy.pad_threshold:
        return False
    return _share(new.coverage, old.coverage) < _share(old.coverage, new.coverage)


def _share(coverage: Coverage, other: Coverage) -> int:
    """Return *coverage* in a unit that it shares with *other*: a fraction without rounding."""
    return coverage.huge * other.text
