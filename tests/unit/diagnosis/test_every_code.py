"""Each code of the catalogue has a test that makes its situation, asks, does what is recommended, and sees it gone.

Where nothing is to be done, it sees that nothing is recommended.  WITHOUT says which situations no test can make.
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
    "link/test_examine.py": "ADVISED",
    "live/test_copy_diagnoses.py": "ROWS",
    "live/test_enable.py": "REFUSED",
    "live/test_error_diagnoses.py": "ROWS",
    "live/test_process_diagnoses.py": "ROWS",
    "live/test_remedies.py": "ROWS",
    "live/test_status.py": "ROWS",
    "unit/machine/test_machine_policy.py": "BAD",
}
#: Tests of one code each, which do the same.
ALONE = {
    "change.machine": "live/test_machine.py::test_copies_for_services_that_gain",
    "change.replaced": "live/test_status.py::test_a_file_that_a_warm_copy_replaced",
    "container.description": "commands/test_oci_hook.py::test_what_an_engine_does_not_describe",
    "container.hook-ended": "commands/test_oci_hook.py::test_a_process_of_the_hook_that_is_killed",
    "container.hook-failed": "live/test_oci.py::test_a_hook_that_leaves_a_program",
    "container.no-hook": "live/test_oci.py::test_a_container_whose_engine_had_no_hook",
    "container.hook-unread": "live/test_oci.py::test_a_hook_where_podman_does_not_look",
    "container.rootless": "live/test_oci.py::test_the_hook_of_a_rootless_engine",
    "container.no-time": "commands/test_oci_hook.py::test_the_time_is_bounded_from_the_first_byte",
    "copy.library": "live/test_stage.py::test_libraries_that_a_copy_without_a_path_leaves_out",
    "copy.own-path": "live/test_stage.py::test_a_program_that_looks_for_itself_is_not_copied_without_a_path",
    "file.no-functions": "commands/test_hostile_profiles.py::test_unwind_information_of_zeros",
    "file.no-zstd": "commands/test_archives.py::test_no_zstd_program",
    "file.not-recorded": "live/test_trees.py::test_a_list_that_cannot_be_written_prevents_no_fix",
    "file.not-synced": "live/test_fix.py::test_error_at_each_system_call",
    "file.size-limit": "commands/test_fix_output.py::test_the_limit_that_is_in_the_way_is_named",
    "file.too-large": "commands/test_archives.py::test_bombs",
    "file.worker": "unit/verification/test_inputs.py::test_a_worker_that_is_killed",
    "fix.no-debug-file": "link/test_separate_debug.py::test_debug_file_of_another_program",
    "fix.no-zstd": "prebuilt/test_debian.py::test_what_fix_misses_until_it_is_installed",
    "fix.other-debug-file": "link/test_separate_debug.py::test_debug_file_of_another_program",
    "machine.busy": "live/test_machine.py::test_in_place_for_all_that_start_it",
    "machine.loader": "prebuilt/test_debian.py::test_a_loader_that_ignores_the_alignment_of_libraries",
    "machine.no-compiler": "live/test_doctor.py::test_programs_that_are_missing",
    "machine.no-perf": "live/test_doctor.py::test_programs_that_are_missing",
    "process.filtered": "live/test_doctor.py::test_a_filter_of_system_calls",
    "machine.unchanged": "live/test_store.py::test_copies_are_removed_one_by_one_and_all_together",
    "machine.not-enabled": "live/test_machine.py::test_copies_for_services_that_gain",
    "machine.state": "live/test_machine.py::test_in_place_for_all_that_start_it",
    "machine.no-journal": "live/test_status.py::test_a_full_journal",
    "machine.no-proc": "commands/test_without_proc.py::test_a_file_to_read",
    "memory.address-space": "live/test_bad_input.py::test_windows_in_small_batches",
    "memory.limit": "live/test_bad_input.py::test_control_group_that_is_too_small_for_all",
    "policy.container": "live/test_machine.py::test_copies_for_services_that_gain",
    "policy.may-replace": "unit/process/test_containers.py::test_why_the_machine_leaves_a_container",
    "policy.excluded": "unit/machine/test_plan.py::test_why_a_part_is_left",
    "policy.little-saved": "unit/machine/test_plan.py::test_why_a_part_is_left",
    "policy.no-place": "live/test_machine.py::test_copies_for_services_that_gain",
    "policy.no-room": "live/test_machine.py::test_in_place_for_all_that_start_it",
    "policy.no-window": "live/test_machine.py::test_copies_for_services_that_gain",
    "policy.runs-as-root": "live/test_machine.py::test_copies_for_services_that_gain",
    "policy.sessions": "live/test_machine.py::test_copies_for_services_that_gain",
    "process.counts-only": "live/test_process_diagnoses.py::test_a_kernel_that_only_counts",
    "process.first-thread-ended": "live/test_ps_cases.py::test_all_see_a_program_whose_first_thread_has_ended",
    "process.no-text": "live/test_process_diagnoses.py::test_a_program_that_left_its_text",
    "process.remapped": "live/test_adapt.py::test_process_that_changes_in_between",
    "process.shared-window": "live/test_adapt.py::test_a_window_that_a_child_has_too_is_not_split",
    "program.small": "live/test_run.py::test_a_library_that_a_small_program_opens",
    "program.thp-disabled": "live/test_process_diagnoses.py::test_a_program_that_disables_huge_pages_for_itself",
    "program.unchanged": "unit/cli/test_run.py::test_a_system_call_that_fails",
    "runtime.enough": "live/test_top.py::test_more_windows_than_the_processor_keeps_are_not_recommended",
    "saving.measure": "unit/watch/test_advise_verdict.py::test_answers",
    "saving.no": "live/test_advise.py::test_starts_and_a_loop",
    "saving.no-costs": "live/test_advise.py::test_a_processor_that_is_not_here_has_no_costs",
    "saving.yes": "live/test_advise.py::test_starts_and_a_loop",
    "service.other-unit": "unit/system/test_unitnames.py::test_units_that_are_not_services",
    "service.may-mount": "live/test_enable.py::test_a_program_that_can_mount",
    "service.mounts": "live/test_service_kinds.py::test_what_mounts_for_others_is_refused",
    "service.members": "live/test_enable.py::test_service_that_only_groups_others_names_them",
    "service.template": "unit/system/test_unitnames.py::test_units_that_are_not_services",
    "store.not-removed": "live/test_status.py::test_what_cannot_be_undone_is_named_and_stays",
    "text.none-below": "live/test_trees.py::test_what_has_no_window_is_told_of_with_what_gives_it_one",
    "thp.unchanged": "live/test_adapt.py::test_a_window_that_stays_huge_for_no_known_reason",
    "tlb.few-samples": "unit/watch/test_advise_verdict.py::test_answers",
    "tlb.fits": "live/test_advise.py::test_a_processor_that_is_not_here_has_no_costs",
    "tlb.huge-already": "live/test_advise.py::test_what_is_said_of_text_that_is_huge",
}
#: Why no machine of the tests can be brought into the situation, the test that has the codes all the same, and these.
WITHOUT: tuple[tuple[str, str, str], ...] = (
    (
        "no layout of a fix is known that loses a guard",
        "commands/test_file_diagnoses.py::test_a_protection_that_would_be_lost",
        "fix.weaker",
    ),
)
NAMED = [*ALONE.items(), *((code, test) for _, test, codes in WITHOUT for code in codes.split())]


def definitions(file: str) -> dict[str, ast.stmt]:
    """Return the functions and tables of a file of tests, by name."""
    result: dict[str, ast.stmt] = {}
    for item in ast.parse((TESTS / file).read_text(encoding="utf-8")).body:
        if isinstance(item, ast.FunctionDef):
            result[item.name] = item
        targets = (
            item.targets if isinstance(item, ast.Assign) else [item.target] if isinstance(item, ast.AnnAssign) else []
        )
        result |= {target.id: item for target in targets if isinstance(target, ast.Name)}
    return result


def strings(node: ast.AST) -> set[str]:
    return {item.value for item in ast.walk(node) if isinstance(item, ast.Constant) and isinstance(item.value, str)}


def rows(file: str, table: str) -> Iterator[str]:
    """Yield the codes of a table: the keys of a dictionary, or the first words of the rows of a list."""
    value = getattr(definitions(file)[table], "value", None)
    assert isinstance(value, ast.Dict | ast.List)
    firsts = (
        value.keys
        if isinstance(value, ast.Dict)
        else [item.elts[0] for item in value.elts if isinstance(item, ast.Tuple)]
    )
    yield from (item.value for item in firsts if isinstance(item, ast.Constant) and isinstance(item.value, str))


def test_every_code_has_a_test_of_its_remedy_or_a_reason() -> None:
    tested = {code for file, table in TABLES.items() for code in rows(file, table)}
    named = [code for code, _ in NAMED]
    missing = {*catalogue.codes()} - {*tested, *named}
    assert not missing, f"no test of their remedies: {missing}; add rows to one of TABLES"
    assert sorted([*tested, *named]) == catalogue.codes()


@pytest.mark.parametrize(("code", "test"), NAMED)
def test_the_test_that_is_named_has_the_code(code: str, test: str) -> None:
    file, _, name = test.partition("::")
    there = definitions(file)
    assert name in there
    assert code in strings(there[name])
