"""What `top` says about a row: one command for all parts of a program, and what can still become huge of its code."""

from dataclasses import replace
from pathlib import Path

import pytest

from hugealign.process.pagemap import Region
from hugealign.process.smaps import Mapping
from hugealign.process.texts import Executed
from hugealign.watch.actions import Action, Actions, together
from hugealign.watch.parts import CodeKind
from hugealign.watch.rows import Group, group
from hugealign.watch.start import Start
from hugealign.watch.verdict import DELETED

W = 2 << 20
SERVICE = Start("/usr/sbin/mariadbd", "mariadb.service", inside=False, fix=True)


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert SERVICE.command == "hugealign enable --fix mariadb.service && systemctl restart mariadb.service"
    escaped = replace(SERVICE, service=r"a\x2db.service", fix=False)  # a-b, as systemd-escape(1) writes it
    assert escaped.command == r"hugealign enable 'a\x2db.service' && systemctl restart 'a\x2db.service'"
    start = replace(SERVICE, service="", fix=False, files=("/lib/a b.so",))
    assert start.command == "start it with: hugealign run --file '/lib/a b.so' -- /usr/sbin/mariadbd"
    for place in ("elsewhere", "sbin"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "mariadbd").write_text("")
        (tmp_path / place / "mariadbd").chmod(0o755)
    here = replace(start, program=str(tmp_path / "sbin/mariadbd"))
    monkeypatch.setenv("PATH", f"{tmp_path}/sbin")
    assert here.command == "start it with: hugealign run --file '/lib/a b.so' -- mariadbd"
    monkeypatch.setenv("PATH", f"{tmp_path}/elsewhere:{tmp_path}/sbin")
    assert here.command == f"start it with: hugealign run --file '/lib/a b.so' -- {tmp_path}/sbin/mariadbd"
    inside = replace(SERVICE, inside=True)
    assert inside.command == "in its container, start it with: hugealign run --fix -- mariadbd"


def test_parts_of_a_service_have_one_command_in_whatever_order_they_are_mended() -> None:
    text, libs = SERVICE, replace(SERVICE, fix=False, files=("/lib/a.so",))
    other, inside = replace(SERVICE, service="nginx.service"), replace(libs, inside=True)
    starts = [Action(command=start.command, start=start) for start in (text, libs, other, inside)]
    found = together([starts[0], Action("why", "as it is", 3), *starts[1:]])
    both = "hugealign enable --fix --libs mariadb.service && systemctl restart mariadb.service"
    assert [action.command for action in found] == [both, "as it is", both, other.command, inside.command]


def test_what_an_earlier_start_made_huge_is_in_the_next_command() -> None:
    """A library is huge by `run --file`; the command for another one names it too, or it would be small again."""
    program = replace(SERVICE, service="", fix=False)
    done, lacking = replace(program, fix=True, files=("/lib/a.so",)), replace(program, files=("/lib/b.so",))
    found = together([Action(reachable=2, start=done), Action("why", lacking.command, 3, lacking)])
    assert [action.command for action in found] == [
        "",
        "start it with: hugealign run --fix --file /lib/a.so --file /lib/b.so -- /usr/sbin/mariadbd",
    ]


def code(*pids: int, huge: int, small: int, files: int = 0) -> Group:
    """A program with eight windows of code without a file, and *files* huge ones of its text."""
    at = 16 * W
    pages = (
        Region(at, at + huge * W, huge=True, file=False),
        Region(at + huge * W, at + (huge + small) * W, huge=False, file=False),
    )
    jit = Mapping(at, at + 8 * W, 0, "", permissions="rwxp", pages=pages)
    text = Mapping(W, (1 + files) * W, 0, "/srv/app", pages=(Region(W, (1 + files) * W, huge=True, file=True),))
    parts = (text, jit) if files else (jit,)
    found = group([Executed(pid, "app", "/srv/app", 0.0, 0.0, parts, ()) for pid in pids], {})
    return next(one for one in found if one.key.kind == CodeKind.CODE)


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hugealign.process.texts.thp_disabled", lambda _: False)
    monkeypatch.setattr("hugealign.process.texts.control_groups", lambda _: "")


def test_code_in_use_can_become_huge_as_far_as_the_processor_keeps_it() -> None:
    found = Actions(W, 63).of(code(7, huge=1, small=3))
    assert (found.command, found.reachable) == ("run: hugealign adapt 7", 4)
    assert Actions(W, 3).of(code(7, huge=1, small=3)).reachable == 3
    assert Actions(W, 3).of(code(7, huge=1, small=3, files=1)).reachable == 2
    assert Actions(W, 63).of(code(7, 8, huge=1, small=3)).reachable == 8


@pytest.mark.parametrize(("most", "huge", "small"), [(63, 4, 0), (4, 4, 4), (63, 0, 0)])
def test_code_of_which_no_more_can_be_huge_asks_for_nothing(most: int, huge: int, small: int) -> None:
    found = Actions(W, most).of(code(7, huge=huge, small=small))
    assert (found.command, found.reachable) == ("", huge)
    assert found.reason.startswith("not touched yet")


def test_processes_are_named_by_what_finds_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Actions(W, 63).of(code(7, 8, huge=0, small=1)).command == "run: hugealign adapt app"
    monkeypatch.setattr("hugealign.process.texts.control_groups", lambda _: "0::/system.slice/site.service")
    assert Actions(W, 63).of(code(7, 8, huge=0, small=1)).command == "run: hugealign adapt site.service"


def test_what_starts_before_us_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hugealign.services.programs.starts_early", lambda name: name == "journal.service")
    monkeypatch.setattr(Actions, "_file", lambda *_: Action("small", SERVICE.command, 3, SERVICE))
    text = Mapping(W, 4 * W, 0, "/srv/app", pages=())
    for exe, service, told in (
        ("/srv/app", "journal", False),
        ("/srv/app", "site", True),
        ("/lib/systemd/systemd", "", False),
    ):
        monkeypatch.setattr(
            "hugealign.process.texts.control_groups",
            lambda _, service=service: f"0::/system.slice/{service}.service" if service else "",
        )
        (one,) = group([Executed(7, "app", exe, 0.0, 0.0, (text,), ())], {})
        assert bool(Actions(W, 63).of(one).command) == told


def program(huge: int, *, deleted: bool = False, path: str = "/srv/app") -> Group:
    """A program with three windows of text of which some are *huge*."""
    pages = (Region(W, (1 + huge) * W, huge=True, file=True), Region((1 + huge) * W, 4 * W, huge=False, file=True))
    text = Mapping(W, 4 * W, 0, path, deleted=deleted, pages=pages)
    (one,) = group([Executed(7, "app", path, 0.0, 0.0, (text,), ())], {})
    return one


@pytest.mark.parametrize(("huge", "command"), [(3, ""), (1, "systemctl restart site.service")])
def test_text_that_was_replaced_is_started_again_only_if_it_lacks_something(
    huge: int, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hugealign.process.texts.control_groups", lambda _: "0::/system.slice/site.service")
    assert Actions(W, 63).of(program(huge, deleted=True)) == Action(DELETED, command, 3)


def test_copy_in_memory_was_not_replaced() -> None:
    """`run --how=copy` makes it, and the kernel calls it deleted: it never had a name."""
    assert Actions(W, 63).of(program(3, deleted=True, path="/memfd:app")) == Action("", "", 3)
    some = Action("not all of its copy in memory is huge", "start it again", 3)
    assert Actions(W, 63).of(program(1, deleted=True, path="/memfd:app")) == some


def test_process_that_forbids_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hugealign.process.texts.thp_disabled", lambda _: True)
    assert Actions(W, 63).of(program(1)) == Action("prctl(PR_SET_THP_DISABLE)", "start it without that", 3)
