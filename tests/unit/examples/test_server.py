"""What a server.toml means, what its test suite said, and servers that are started anew."""

import os
from pathlib import Path

import pytest

from examples.servers.server import Example, Instance, read, start_anew
from examples.servers.steps import Failed, Steps
from lab.bench.placements import PLACEMENTS


def example(name: str, build: Path) -> Example:
    """An example whose sources are there."""
    for source in ("mariadb-10.11.18", "current", "major"):
        (build / "source" / source / "debian").mkdir(parents=True)
        (build / "source" / source / "debian" / "changelog").write_text(f"{name} (1:{source}) unstable; urgency=low\n")
    return Example(read(name), Steps(build, "nobody"), 12, 5)


@pytest.mark.parametrize("name", ["mysql", "postgres"])
def test_every_template_has_what_it_names(tmp_path: Path, name: str) -> None:
    result = example(name, tmp_path)
    item, server = Instance(result, "ordered", tmp_path / "data", tmp_path / "socket"), result.server
    commands = [item.words(server.serve["start"]), item.words(server.serve["ping"]), item.words(server.test["command"])]
    commands += [item.words(words, seed=7) for words in (*server.serve["training"], *server.loads.values())]
    commands += [item.words(words) for words in (*server.serve["create"], *server.serve["fill"])]
    commands += [result.words(words) for words in server.promises.values()]
    for build in (*server.builds, *server.links):
        for variant, compiler in build["variants"].items():
            names = {"variant": variant, "compiler": " ".join(result.words(compiler, variant=variant))}
            assert "{" not in build["directory"].format(**names)
            commands += [result.words(words, **names) for step in build["steps"].values() for words in step]
    for variant, compiler in server.placed["variants"].items():
        names = {"variant": variant, "place": "/placed", "object": "/pad.o", "tree_of": variant}
        names["compiler"] = " ".join(result.words(compiler, **names))
        commands += [result.words(words, **names) for words in server.placed["steps"]]
    trace = server.trace
    for words in (*trace["prepare"], *trace["bring"], *trace["fill"], trace["start"]):
        commands.append(result.words(words, home="/tmp/h", bare="env -i", preloaded="/tmp/x.so", variant="leading"))
    assert all(commands)
    assert not [command for command in commands if "{" in "".join(command)]
    with pytest.raises(KeyError):
        result.words("{unheard-of}")


def test_sources(tmp_path: Path) -> None:
    result = example("postgres", tmp_path)
    assert (result.current, result.older) == ("current", ("major",))  # of `older` the archive had none
    assert (result.version(), result.version("major")) == ("1:current", "1:major")
    assert Example(result.server, result.steps, 2, 2, stale=False).older == ()
    result = example("mysql", tmp_path / "other")
    assert (result.current, result.older, result.version()) == ("mariadb-10.11.18", (), "1:mariadb-10.11.18")
    (tmp_path / "other" / "source" / "mariadb-9" / "debian").mkdir(parents=True)
    (tmp_path / "other" / "source" / "mariadb-9" / "debian" / "changelog").touch()
    with pytest.raises(Failed, match="2 sources of mariadb; begin again with --clean"):
        _ = result.current


def test_windows_that_are_to_be_huge(tmp_path: Path) -> None:
    result = example("mysql", tmp_path)
    result.order("leading").parent.mkdir()
    result.order("leading").write_text("# hugealign.order/1\n# windows: 2\nmain\n")
    assert (result.wanted("plain"), result.wanted("leading")) == (0, 2)


MTR = """\
TEST                                      RESULT   TIME (ms) or COMMENT
--------------------------------------------------------------------------
worker[01] Using MTR_BUILD_THREAD 300, with reserved ports 16000..16029
main.1st                                 w1 [ pass ]      7
main.commit_1innodb 'innodb'             w2 [ pass ]   1204
main.func_math                           w1 [ skipped ]  Requires something
main.join                                w2 [ fail ]
        Test ended at 2026-11-21 20:00:00
main.join                                w2 [ retry-pass ]   3000
main.win                                 w1 [ disabled ]  MDEV-1
The servers were restarted 3 times
"""
PG_REGRESS = """\
test tablespace                   ... ok          312 ms
parallel group (3 tests):  oid char money
     char                         ... ok           52 ms
     money                        ... FAILED       50 ms
     oid                          ... ok           81 ms
"""


@pytest.mark.parametrize(("name", "message", "passed"), [("mysql", MTR, 2), ("postgres", PG_REGRESS, 3)])
def test_verdicts_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str, passed: int
) -> None:
    """A test that passes at a second try has failed, and what is skipped has not passed."""
    result = example(name, tmp_path)
    for directory in ("stamps", "logs", "data"):
        (tmp_path / directory).mkdir()
    monkeypatch.setattr(Instance, "start", lambda _: None)
    monkeypatch.setattr(Example, "do", lambda *_, **__: None)
    monkeypatch.setattr(Steps, "run", lambda self, _, log, **__: self.log(log).write_text(message) and 0)
    assert result.test("hugealign", tmp_path) == {"status": 0, "passed": passed, "failed": 1}
    assert len(result.steps.broken) == 1


def test_a_placed_server_runs_from_a_new_copy_of_its_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own program, which is traced later, stays as it is; the start command names the copy."""
    result = example("mysql", tmp_path)
    for name in ("logs", "links/plain", "placed"):
        (tmp_path / name).mkdir(parents=True)
    result.program("plain").write_text("itself")
    result.placed("plain", 16).write_text("behind 16 bytes")
    one = Instance(result, "plain", tmp_path / "data", tmp_path / "socket")
    monkeypatch.setattr(Steps, "run", lambda *_, **__: 0)
    monkeypatch.setattr(Steps, "as_user", lambda *_: [])
    assert one.program == result.program("plain")
    one.placement = 16
    one.bring()
    assert str(one.program) in one.words("{program}")
    with one.program.open("rb") as first:
        assert first.read() == b"behind 16 bytes"
        one.bring()
        assert one.program.stat().st_ino != os.fstat(first.fileno()).st_ino
    assert result.program("plain").read_text() == "itself"


def test_no_server_keeps_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gets that of every other in turn, all with the same placement; none starts before all have stopped."""
    done: list[tuple[str, str]] = []
    monkeypatch.setattr(Instance, "stop", lambda self: done.append(("stop", self.data.name)))
    monkeypatch.setattr(Instance, "start", lambda self: done.append((self.variant, self.data.name)))
    result = example("postgres", tmp_path)
    servers = [Instance(result, name, tmp_path / name.upper(), tmp_path) for name in "abcd"]
    seen: dict[str, list[str]] = {name: [] for name in "abcd"}
    for placement in PLACEMENTS:
        done.clear()
        start_anew(servers, placement)
        assert {item.placement for item in servers} == {placement}
        assert [word for word, _ in done] == ["stop"] * 4 + list("abcd")
        assert sorted(data for _, data in done[:4]) == list("ABCD")
        for name, data in done[4:]:
            seen[name].append(data)
    assert {name: sorted(data) for name, data in seen.items()} == {name: list("ABCD") for name in "abcd"}
