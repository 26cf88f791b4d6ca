"""What `top` and `doctor` do is the same whatever the catalogue says: they compare fields, never words.

tests/live/test_enable.py asks `enable` the same.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hugealign.diagnosis import catalogue, render
from hugealign.diagnosis.values import Diagnosis
from hugealign.doctor import checks
from hugealign.watch import top
from hugealign.watch.remedies import Remedied, Remedies, Start, together
from tests.unit.doctor.test_checks import GOOD, NO_FOLIOS, REFUSED
from tests.unit.watch.test_top import code, program

SERVICE = Start("/srv/app", "app.service", inside=False, fix=False)


def ranked() -> object:
    """`top`: the programs in their order, and what would help each."""
    groups = [*code(1, 1, 3), *program(1, deleted=True), *code(2, 1, 3), *program(1, deleted=True, path="/memfd:app")]
    rows = top.ranked(groups, Remedies(), 63)
    return [(row.program, row.pids, row.diagnosis, row.windows_reachable) for row in rows]


def grouped() -> object:
    """`top` and `ps`: one command for all parts of a service."""
    starts = SERVICE, SERVICE.changed(files=("/lib/a.so",)), SERVICE.changed(service="other.service")
    result = [Remedied(Diagnosis("cache.small-pages", "/f", {}, start.remedy(0, 3)), start) for start in starts]
    return [item.diagnosis for item in together(result)]


def checked() -> object:
    """`doctor`: what is in the way, what helps, and the status."""
    places = (NO_FOLIOS, replace(NO_FOLIOS, path="/y"), replace(NO_FOLIOS, huge=1))
    result = checks.check(replace(GOOD, places=places, no_mounts=REFUSED, disabled=True))
    return result, checks.exit_status(result)


def numbers() -> Iterator[str]:
    return map(str, itertools.count())


@pytest.mark.parametrize("words", [itertools.repeat("same"), numbers()], ids=["all-alike", "all-different"])
def test_words_decide_nothing(words: Iterator[str], monkeypatch: pytest.MonkeyPatch) -> None:
    before = ranked(), grouped(), checked()
    row = catalogue.row

    def reworded(code: str) -> catalogue.Row:
        return row(code).changed(title=next(words), sentence=next(words), fix=next(words))

    monkeypatch.setattr(catalogue, "row", reworded)
    monkeypatch.setattr(render, "row", reworded)
    for kind in catalogue.REMEDIES:
        monkeypatch.setitem(catalogue.REMEDIES, kind, next(words))
    assert render.text(Diagnosis("thp.unchanged", "", {})) != "the kernel reported success but changed nothing"
    assert (ranked(), grouped(), checked()) == before
