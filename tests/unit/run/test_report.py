"""What `stage` prints and writes as JSON of a copy that is not huge."""

from hugealign.diagnosis import documents, render
from hugealign.diagnosis.values import Diagnosis, Remedy
from hugealign.run import report
from hugealign.run.store import MADE, Staged
from tests.documents import check


def test_the_reason_is_a_diagnosis() -> None:
    why = Diagnosis("thp.partial", "/a", {"huge": 1, "windows": 3}, Remedy("retry"))
    staged = Staged("/a", MADE, 3, 1, 6 << 20, diagnosis=why)
    assert report.lines(staged)[1:] == [f"  {render.text(why, colour=True)}"]
    whole = Staged("/b", MADE, 3, 3, 6 << 20)
    assert report.lines(whole)[1:] == []
    result = check(documents.text(report.Report("/run/x", [staged, whole], ())))
    assert [file["diagnosis"] and file["diagnosis"]["code"] for file in result["files"]] == ["thp.partial", None]


def test_data_that_became_executable_is_said() -> None:
    (line,) = report.lines(Staged("/b", MADE, 3, 3, 6 << 20, fixed=True, executable=3 << 10))
    assert line.endswith("(6.0 MiB, copied; 3.0 KiB of read-only data executable)")
