"""docs/measured/archive.md, from what is known of each package."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.archive.packages import Package
from tests.support import made_here

_HEAD = """\
# Debian's packages, built twice

Of {built} source packages of Debian 12, built as they are and with hugealign, {different} {differs} in something; the
other {same} are the same, {alike} of them with text that hugealign lays out. {missing} more of the list were not built.

| source packages | |
|---|--:|
| built twice | {built} |
| the same both times | {same} |
| different in something, with the cause below | {different} |
| with programs of 256 KiB of text or more, which hugealign lays out | {laid_out} |
| whole 2 MiB windows in these, without hugealign | {before} |
| the same, with hugealign | {after} |
| not built | {missing} |
"""
_HOW = """
## How it was made

`make test-archive` builds each package twice, as Debian's build machines do (`dpkg-buildpackage -B`, test suite on, no
network, not as root), and writes this page
({made}). In packages without a large program, hugealign must change nothing.

- *how*: *sequence* is one line, `Build-Depends: dh-sequence-hugealign`; *shims* is
  `hugealign build -- dpkg-buildpackage`, for packages whose `debian/rules` does not use `dh`.
- *suite*: how many summary lines the package's tests printed. They are compared without their times.
- *files*: the files in all packages, compared by name, mode and owner. Dependencies of packages are also compared.
- *programs*: programs and libraries. Their hardening is compared (stack, RELRO, `-z now`, PIE, control flow, read-only
  text). *large*: those with 256 KiB of text or more, where hugealign acts; each must pass `hugealign verify`.
- *windows*: whole 2 MiB windows in all of them, without and with hugealign.

<details><summary>All packages</summary>

| package | build system | how | suite | files | programs | large | windows | differences |
|---|---|---|--:|--:|--:|--:|--:|--:|
"""


def page(packages: Sequence[Package], records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page."""
    rows, causes = [], []
    for package in packages:
        record = records.get(package.name)
        if record is None:
            why = "large" if package.large else "not yet"
            rows.append(f"| {package.name} | {package.system} | not run: {why} | | | | | | |\n")
            continue
        if "unready" in record:
            rows.append(f"| {package.name} | {package.system} | not run: {_cell(record['unready'])} | | | | | | |\n")
            continue
        result = record["differences"]
        before, after = record["windows"]
        rows.append(
            f"| {package.name} {record['version']} | {package.system} | {record['how']} | {len(record['suite'])} "
            f"| {record['files']} | {record['programs']} | {record['large']} | {before} → {after} "
            f"| {len(result) or ''} |\n"
        )
        if result:
            listed = "".join(f"- `{line}`\n" for line in result)
            causes.append(f"\n### {package.name}\n\n{listed}\n{package.cause or 'The cause is not known yet.'}\n")
    built = [record for record in records.values() if "unready" not in record]
    different = sum(bool(record["differences"]) for record in built)
    laid_out = sum(record["large"] > 0 for record in built)
    before, after = map(sum, zip(*(record["windows"] for record in built), strict=True)) if built else (0, 0)
    head = _HEAD.format(
        built=len(built),
        same=len(built) - different,
        different=different,
        differs="differs" if different == 1 else "differ",
        laid_out=laid_out,
        alike=sum(record["large"] > 0 and not record["differences"] for record in built),
        before=before,
        after=after,
        missing=len(packages) - len(built),
    )
    how = _HOW.format(made=made_here())
    why = "".join(("\n## Differences and their causes\n" if causes else "", *causes))
    return f"{head}{why}{how}{''.join(rows)}\n</details>\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
