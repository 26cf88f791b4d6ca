"""What hugealign says inside a kernel, held against what that kernel's own counters show: pure functions, no I/O."""

from collections.abc import Iterator, Sequence
from typing import Any

#: The programs, and how many whole windows of text their files have.
WINDOWS = {"plain": 0, "aligned": 2, "pie": 3, "no-pie": 3, "static": 3, "static-pie": 3}
#: Which of them are measured in which mode of transparent huge pages: how a program is linked does not depend on it.
MODES = {"madvise": tuple(WINDOWS), "always": ("pie",), "never": ("pie",)}
#: The same where the emulation is slow: with `FEW` set, each file system has one program, and one has the others.
FEW: dict[str, dict[str, tuple[str, ...]]] = {"tmpfs": {"madvise": tuple(WINDOWS)}, "": {"madvise": ("pie",)}}

Result = dict[str, Any]


def faults(results: Sequence[Result]) -> list[str]:
    """Return where hugealign's claims in *results*, sent by tests.kernels.guest, are not what was measured."""
    release = tuple(int(number) for number in results[0]["release"].split(".")[:2])
    window_kib = results[0]["window"] >> 10
    if not window_kib:
        return [*_without_huge_pages(results[0])]
    systems = {result["fs"]: result for result in results if "able" in result}
    values = []
    for system in systems.values():
        values += [f"{system['fs']}, in use: {fault}" for fault in _in_use(system, window_kib)]
        values += [
            f"{system['fs']}: staged, {who}: {kib} KiB are huge"
            for who, kib in system["staged"].items()
            if kib != WINDOWS["pie"] * window_kib
        ]
    for result in results:
        values += _commands(result, window_kib) if "doctor" in result else []
    for cell in results:
        if "program" in cell:
            place = f"{cell['fs']}, THP {cell['thp']}, {cell['program']}"
            able = systems[cell["fs"]]["able"]
            values += [f"{place}: {fault}" for fault in (*_warm(cell, able), *_process(cell, release, window_kib))]
    return values


def _without_huge_pages(result: Result) -> Iterator[str]:
    """Yield what is said wrongly where the kernel, or the processor, has no huge pages."""
    for command in ("doctor", "ps"):
        if "machine.no-thp" not in result[command]:
            yield f"{command} gives the reasons {result[command]}, not machine.no-thp"
    if (warm := result["warm"])["status"] != 1 or warm["windows_huge"] or warm["code"] != "machine.no-thp":
        yield f"warm says {warm}"


def _commands(result: Result, window_kib: int) -> Iterator[str]:
    """Yield what `doctor` and `top` say wrongly of the machine, and of one program."""
    if (output := result["doctor"].get("machine.kernel", {})) != result["machine"]:
        yield f"doctor: the kernel is {output}, not {result['machine']}"
    if not {"machine.thp", "machine.processor", "process.thp-allowed"} <= result["doctor"].keys():
        yield f"doctor says only {', '.join(result['doctor'])}"
    if result["top"] != [result["huge_kib"] // window_kib]:
        yield f"top sees {result['top']} huge windows of the program, smaps {result['huge_kib']} KiB"


def _warm(cell: Result, able: bool) -> Iterator[str]:
    output = cell["warm"]
    windows, huge = output["windows"], output["windows_huge"]
    if windows != WINDOWS[cell["program"]]:
        yield f"warm sees {windows} windows in the file"
    # The probe knows nothing of hugealign.
    if huge != (windows if able else 0):
        yield f"warm makes {huge} of {windows} windows huge, and a probe says that the file system can: {able}"
    if output["status"] != (0 if 0 < huge == windows else 1):
        yield f"warm ends with status {output['status']} for {huge} of {windows} windows"
    code = None if 0 < huge == windows else "file-system.no-huge-pages" if windows else "text.no-window"
    if output["code"] != code:
        yield f"warm gives the reason {output['code']}, not {code}"
    # btrfs has no name for hugealign: its st_dev is in no mount table.
    if windows and output["facts"].get("file_system", "") not in ("", cell["fs"].split()[0]):
        yield f"warm names another file system: {output['facts']['file_system']}"


def _process(cell: Result, release: tuple[int, ...], window_kib: int) -> Iterator[str]:
    ps, output = cell["ps"], cell["warm"]
    if ps["windows_huge"] * window_kib != cell["after_kib"]:
        yield f"ps sees {ps['windows_huge']} huge windows, smaps {cell['after_kib']} KiB"
    if ps["status"] != (0 if 0 < ps["windows_huge"] == ps["windows_possible"] else 1):
        yield f"ps ends with status {ps['status']} for {ps['windows_huge']} of {ps['windows_possible']} windows"
    if cell["program"] == "plain":
        return  # its place is random: one time in 512 it is aligned
    # "Honor PT_LOAD alignment for static PIE" (3545deff in its last form): measured, 5.10 lacks it and 6.1.176 has it.
    if not cell["congruent"] and (cell["program"] != "static-pie" or release >= (6, 1)):
        yield "its text is not aligned in memory"
    possible = output["windows"] if cell["congruent"] else 0
    if ps["windows_possible"] != possible:
        seen, aligned = ps["windows_possible"], cell["congruent"]
        yield f"ps sees {seen} windows, the file has {output['windows']}, aligned: {aligned}"
    if cell["after_kib"] != (output["windows_huge"] * window_kib if cell["congruent"] else 0):
        yield f"warm promised {output['windows_huge']} windows, the next process has {cell['after_kib']} KiB"


def _in_use(system: Result, window_kib: int) -> Iterator[str]:
    cell = system["in_use"]
    output = cell["warm"]
    if cell["next_kib"] != output["windows_huge"] * window_kib:
        yield f"warm promised {output['windows_huge']} windows, the next process has {cell['next_kib']} KiB"
    # Stopping the process gains nothing where a new file would not be huge either.
    why = "cache.in-use" if system["able"] else "file-system.no-huge-pages"
    code = None if output["windows_huge"] == output["windows"] else why
    if (output["status"], output["code"]) != (1 if code else 0, code):
        yield f"warm ends with status {output['status']} and reason {output['code']}, not {code}"
