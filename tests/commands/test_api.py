"""The functions behind the commands, used as another program would use them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hugealign
from hugealign.errors import HugealignError
from tests import api, support
from tests.support import ROOT, environment, refused

PYTHON = str(support.PYTHON)


def test_importing_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import hugealign; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["hugealign"]


def test_a_link_imports_nothing_slow() -> None:
    """Each of them takes longer than the check of a link."""
    code = "import sys; import hugealign.link.main, hugealign.link.attempt, hugealign.link.check; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-SE", "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert not {"dataclasses", "enum", "pathlib", "re", "typing"} & set(done.stdout.split())


def test_fix_and_back(tmp_path: Path) -> None:
    source, plain = tmp_path / "plain.c", str(tmp_path / "plain")
    source.write_text(
        '#include <stdio.h>\n__asm__(".fill 300000, 1, 0x90");\nint main(void) { return puts("1") < 0; }\n'
    )
    # Some distributions' compilers align to 64 KiB by themselves.
    subprocess.run(["gcc", str(source), "-o", plain, "-Wl,-z,max-page-size=4096"], check=True, env=environment())
    fixed, back = str(tmp_path / "fixed"), str(tmp_path / "back")
    done = hugealign.fix(plain, hugealign.FixOptions(page_size=1 << 16, output=fixed))
    assert (done.action, done.output, done.after) == ("fix", fixed, os.path.getsize(fixed))
    assert done.plan
    assert done.plan.windows > done.plan.windows_before
    assert subprocess.run([fixed], check=True, capture_output=True).stdout == b"1\n"
    assert hugealign.fix(fixed, hugealign.FixOptions(undo=True, output=back)).action == "undo"
    assert Path(back).read_bytes() == Path(plain).read_bytes()
    dry = hugealign.fix(plain, hugealign.FixOptions(page_size=1 << 16))
    assert (dry.output, dry.after) == ("", done.after)


def test_verify_and_compare(tmp_path: Path) -> None:
    fixed = tmp_path / "fixed"
    hugealign.fix(PYTHON, hugealign.FixOptions(output=str(fixed)))
    options = hugealign.VerifyOptions(hugealign.Policy(2 << 20), hugealign.Selection(fail_on="error"))
    result = hugealign.verify([fixed, tmp_path / "absent"], options)
    assert [file.verdict for file in result.files] == ["ok", "unknown"]
    assert result.status == 3
    problem = result.files[1].problem
    assert problem
    assert (problem.code, problem.facts) == ("file.unreadable", {"error": "ENOENT"})
    assert result.coverage().windows
    assert hugealign.compare(fixed, PYTHON).status == 1
    assert hugealign.compare(PYTHON, fixed).status == 0


def test_order(tmp_path: Path) -> None:
    profile = tmp_path / "names"
    profile.write_text("PyObject_Call\nPyList_New\n")
    made = hugealign.order(PYTHON, [str(profile)], hugealign.OrderOptions(budget=hugealign.budget_of("skylake")))
    assert made.budget.windows == 7
    assert [entry.name for entry in made.file().entries if entry.samples] == ["PyObject_Call", "PyList_New"]
    with pytest.raises(HugealignError, match=r"^absent: No such file or directory$"):
        hugealign.order("absent", [str(profile)])


def test_processes() -> None:
    seen = hugealign.processes([str(os.getpid()), "zqzqzqzq"])
    (verdict,) = seen.verdicts
    assert verdict.process.pid == os.getpid()
    ((target, error),) = seen.errors
    assert target == "zqzqzqzq"
    with refused("process.unknown-name", near=""):
        raise error


def test_warm_and_cool(tmp_path: Path) -> None:
    whole = str(tmp_path / "whole")
    hugealign.fix(PYTHON, hugealign.FixOptions(output=whole))
    assert hugealign.warm(whole, hugealign.WarmOptions(check=True)).offsets
    reported: list[tuple[int, int]] = []
    done = hugealign.warm(whole, progress=lambda *of: reported.append(of))
    assert len(done.warmth.huge) == len(done.offsets)
    assert (done.huge == len(done.offsets)) == (done.diagnosis is None)
    assert hugealign.cool(whole).huge == 0 or done.huge


def test_diagnose(tmp_path: Path) -> None:
    result = hugealign.diagnose([str(tmp_path)])
    assert {"machine.kernel", "process.thp-allowed"} <= {item.diagnosis.code for item in result}


def test_name_that_is_none() -> None:
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        _ = hugealign.frobnicate


def test_the_document_is_up_to_date() -> None:
    assert (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8") == api.document(), "run: make docs"


@pytest.mark.parametrize("name", api.names(functions=True))
def test_the_document_has_what_a_function_returns(name: str) -> None:
    assert set(re.findall(r"[A-Z]\w+", api.returned(name))) <= set(api.RESULTS)
