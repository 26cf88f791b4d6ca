"""The kernel's records of a command, in any order: which page a sample is on."""

from hypothesis import given
from hypothesis import strategies as st

from hugealign.process.command_samples import Records
from hugealign.process.perf_events import SAMPLE
from tests.unit.process.test_command_samples import Record


@given(st.lists(st.tuples(st.sampled_from([2, 3, 7, 9, 10, 99]), st.integers(0, 1 << 15), st.binary(max_size=90))))
def test_records_that_make_no_sense_are_left_out(result: list[Record]) -> None:
    records = Records()
    records.take(result)
    assert sum(records.pages.values()) <= sum(kind == SAMPLE for kind, _, _ in result)
