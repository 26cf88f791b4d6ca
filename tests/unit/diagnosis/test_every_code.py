"""Each code of the catalogue has a test that makes its situation, asks, does what is recommended, and sees it gone.

Where nothing is to be done, or no machine of the tests can be brought into the situation, WITHOUT says why.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from hugealign.diagnosis import catalogue

TESTS = Path(__file__).resolve().parents[2]
#: The tables that tests go through, a row for each code, by the file that each is in.
TABLES = {
    "commands/test_file_diagnoses.py": "ROWS",
    "link/test_examine.py": "CURES",
    "live/test_copy_diagnoses.py": "ROWS",
    "live/test_enable.py": "REFUSED",
    "live/test_process_diagnoses.py": "ROWS",
    "live/test_remedies.py": "ROWS",
}
#: Tests of one code each.
ALONE = {
    "copy.changed": "live/test_stage.py::test_every_check_of_a_copy",
    "machine.no-journal": "live/test_status.py::test_a_full_journal",
    "memory.limit": "live/test_bad_input.py::test_control_group_that_is_too_small_for_all",
    "process.remapped": "live/test_adapt.py::test_process_that_changes_in_between",
    "process.shared-window": "live/test_adapt.py::test_a_window_that_a_child_has_too_is_not_split",
    "service.members": "live/test_enable.py::test_service_that_only_groups_others_names_them",
    "thp.unchanged": "live/test_adapt.py::test_a_window_that_stays_huge_for_no_known_reason",
}
#: Why there is nothing to do or to make, the test that has the codes all the same, and the codes.
WITHOUT: tuple[tuple[str, str, str], ...] = (
    (
        "states, not faults",
        "live/test_doctor.py::STATES",
        "file-system.huge-pages machine.kernel machine.loader machine.processor machine.thp memory.free",
    ),
    ("as above", "live/test_doctor.py::STATES", "process.may-mount process.thp-allowed"),
    (
        "answers about heat: what they recommend has the code of the process",
        "unit/watch/test_advise_verdict.py::test_answers",
        "tlb.exceeded tlb.few-samples tlb.fits tlb.huge-already tlb.nearly-full tlb.scattered",
    ),
    ("as above", "unit/watch/test_advise_verdict.py::test_counters_count_before_samples", "tlb.misses tlb.walks"),
    (
        "the kernel cannot be brought to it at will",
        "unit/pagecache/test_diagnose.py::test_copy",
        "memory.fragmented thp.partial thp.refused",
    ),
    ("a setting for all of the machine", "unit/pagecache/test_diagnose.py::test_copy", "thp.shmem-denied"),
    ("a kernel before 6.1", "unit/pagecache/test_diagnose.py::test_copy", "thp.no-collapse"),
    ("a kernel before 6.1", "unit/doctor/test_checks.py::test_check", "file-system.small-tmpfs"),
    ("a kernel without them", "unit/doctor/test_checks.py::test_check", "machine.no-thp"),
    ("a kernel with fs-verity", "unit/run/test_copies.py::test_what_fs_verity_guards_is_not_copied", "copy.sealed"),
    ("only a descriptor has none", "unit/run/test_copies.py::test_what_has_no_path_is_not_copied", "copy.no-path"),
    ("a disk that fails", "live/test_bad_input.py::test_pages_that_are_being_written", "cache.dirty"),
    ("upx is needed", "link/test_fix.py::REFUSALS", "file.packed"),
    ("a runtime with an option", "unit/watch/test_remedies.py::test_remedy_of_each_code", "runtime.no-window"),
    ("a process that was killed", "unit/verification/test_inputs.py::test_a_worker_that_is_killed", "file.worker"),
    ("headers that read otherwise the second time", "unit/fixing/test_output.py::ODD", "fix.headers-overlap"),
    (
        "no layout of a fix is known that loses a guard",
        "commands/test_file_diagnoses.py::test_a_protection_that_would_be_lost",
        "fix.weaker",
    ),
    (
        "its command shows more, and changes nothing",
        "unit/run/test_launch.py::test_a_file_whose_headers_are_damaged",
        "file.malformed",
    ),
    ("as above", "unit/run/test_launch.py::test_a_program_without_windows", "program.small"),
    (
        "nothing is recommended",
        "unit/watch/test_remedies.py::test_a_file_that_cannot_be_reached_is_told_apart",
        "file.out-of-reach",
    ),
    ("as above", "unit/watch/test_verdict.py::test_verdicts_say_why", "process.counts-only"),
    ("as above", "unit/watch/test_verdict.py::test_no_text_at_all", "process.no-text"),
    ("as above", "live/test_adapt.py::test_a_program_without_a_window_is_told_nothing", "process.no-window"),
    (
        "as above",
        "live/test_adapt.py::test_memory_without_huge_pages_by_the_programs_own_wish",
        "program.small-pages",
    ),
    (
        "as above",
        "unit/watch/test_top.py::test_code_in_use_can_become_huge_as_far_as_the_processor_keeps_it",
        "runtime.enough",
    ),
)
SEPARATION = (
    ("link/test_separate.py::DAMAGED", "fix.address-tables fix.unknown-relocations"),
    ("link/test_separate.py::test_check_sees_a_difference", "fix.check"),
    ("link/test_separate.py::test_crossing", "fix.crosses"),
    ("link/test_separate.py::test_debug_information_of_another_form_is_refused", "fix.debug-inside"),
    ("link/test_separate.py::test_text_that_looks_like_addresses", "fix.many-addresses"),
    ("link/test_separate.py::test_debug_file_of_another_program", "fix.no-debug-file fix.other-debug-file"),
    ("link/test_separate.py::test_without_a_decoder", "fix.no-decoder"),
    (
        "unit/fixing/separation/test_plan.py::REFUSED",
        "fix.fixed-address fix.no-dynamic fix.several-texts fix.writable-first",
    ),
)
WITHOUT += tuple(("a lower level takes the file", test, codes) for test, codes in SEPARATION)
NAMED = [*ALONE.items(), *((code, test) for _, test, codes in WITHOUT for code in codes.split())]


def definitions(file: str) -> dict[str, ast.stmt]:
    """Return the functions and tables of a file of tests, by name."""
    found: dict[str, ast.stmt] = {}
    for one in ast.parse((TESTS / file).read_text(encoding="utf-8")).body:
        if isinstance(one, ast.FunctionDef):
            found[one.name] = one
        targets = one.targets if isinstance(one, ast.Assign) else [one.target] if isinstance(one, ast.AnnAssign) else []
        found |= {target.id: one for target in targets if isinstance(target, ast.Name)}
    return found


def strings(node: ast.AST) -> set[str]:
    return {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def rows(file: str, table: str) -> Iterator[str]:
    """Yield the codes of a table: the keys of a dictionary, or the first words of the rows of a list."""
    value = getattr(definitions(file)[table], "value", None)
    assert isinstance(value, ast.Dict | ast.List)
    firsts = (
        value.keys if isinstance(value, ast.Dict) else [one.elts[0] for one in value.elts if isinstance(one, ast.Tuple)]
    )
    yield from (one.value for one in firsts if isinstance(one, ast.Constant) and isinstance(one.value, str))


def test_every_code_has_a_test_of_its_remedy_or_a_reason() -> None:
    tested = {code for file, table in TABLES.items() for code in rows(file, table)}
    named = [code for code, _ in NAMED]
    assert sorted([*tested, *named]) == catalogue.codes()


@pytest.mark.parametrize(("code", "test"), NAMED)
def test_the_test_that_is_named_has_the_code(code: str, test: str) -> None:
    file, _, name = test.partition("::")
    there = definitions(file)
    assert name in there
    assert code in strings(there[name])
