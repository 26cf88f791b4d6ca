"""What test suites say of themselves in the log of a build: their summaries, without times."""

import re

#: The lines in which test suites add up.  What is a time in them is cut off.
_SUMMARIES = tuple(
    re.compile(pattern)
    for pattern in (
        r"# (?:TOTAL|PASS|SKIP|XFAIL|FAIL|XPASS|ERROR): +\d+",  # Automake
        r"All \d+ tests passed|\d+ of \d+ tests failed",  # Automake, serial
        r"\d+% tests passed, \d+ tests failed out of \d+",  # CTest
        r"(?:Ok|Expected Fail|Fail|Unexpected Pass|Skipped|Timeout): +\d+",  # Meson
        r"test result: .*? filtered out",  # Cargo
        r"(?:ok|FAIL|\?) +\t?\S+(?=\s+(?:\d+\.\d+s|\(cached\)|\[))",  # Go
        r"=+ (?:\d+ [a-z]+(?:, )?)+(?= in [\d.]+)",  # pytest
        r"Ran \d+ tests?(?= in [\d.]+)|OK(?: \(.*\))?|FAILED \(.*\)",  # unittest
        r"Files=\d+, Tests=\d+|Result: [A-Z]+",  # prove
        r"Tests run: \d+, +Failures: \d+(?:, +Errors: \d+)?(?:, +Skipped: \d+)?",  # JUnit
        r"OK \(\d+ tests?\)|Runs: \d+ Passes: \d+ Fails: \d+",  # JUnit, CuTest
        r"# of (?:expected|unexpected|unresolved|untested|unsupported) .*\d+",  # DejaGnu
        r"\[  (?:PASSED|FAILED)  \] \d+ tests?",  # GoogleTest
        r"Totals: \d+ passed, \d+ failed, \d+ skipped(?:, \d+ blacklisted)?",  # QtTest
        r"\d+ errors out of \d+ tests",  # SQLite
        r".*\btest OK",
        r"ALL TESTS PASSED|All tests? passed\S*|.*\ball tests (?:passed|succeeded)\b.*",
    )
)
_BEFORE = re.compile(r"^(?:\x1b\[[0-9;]*m|\[\w+\] |\d+: |\s)*")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def summaries(log: str) -> list[str]:
    """Return the summaries in *log*, sorted, since builds run suites at the same time."""
    result = []
    for raw in log.splitlines():
        line = _BEFORE.sub("", _COLOUR.sub("", raw))
        for pattern in _SUMMARIES:
            if match := pattern.match(line):
                result.append(" ".join(match[0].split()))
                break
    return sorted(result)
