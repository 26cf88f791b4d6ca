"""The list of what built LLVM plugins are for, and what an order says of what they compile."""

import os
from pathlib import Path

import pytest

from hugealign.link.order import dialects
from hugealign.link.order.dialects import Choices, LinkOrder
from hugealign.wrapper import plugin_list as plugins


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the list is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("HUGEALIGN_PLUGIN", raising=False)
    path = Path(plugins.cache()) / plugins.NAME
    path.parent.mkdir(parents=True)
    return path


def files(directory: Path, *names: str) -> list[str]:
    for name in names:
        (directory / name).write_text(name)
    return [str(directory / name) for name in names]


def test_found_while_nothing_has_changed(listed: Path, tmp_path: Path) -> None:
    plugin, tool, library = files(tmp_path, "plug in.so", "clang", "libLLVM.so")
    entry = plugins.ListedPlugin(plugin, tool, plugins.identity([tool, library]), [library])
    listed.write_text("nonsense\n\n\t\t\n" + entry.line())
    (tmp_path / "link").symlink_to(tool)
    assert plugins.find(tool) == plugins.find(str(tmp_path / "link")) == plugin
    assert plugins.find(library) is None
    assert plugins.find("no\0name") is None
    os.utime(library, (1, 1))
    assert plugins.find(tool) is None
    listed.write_text(plugins.ListedPlugin(plugin, tool, plugins.identity([tool, library]), [library]).line())
    assert plugins.find(tool) == plugin
    os.unlink(plugin)
    assert plugins.find(tool) is None
    assert plugins.find(str(tmp_path / "gone")) is None


def test_no_list(listed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plugins.read() == []
    listed.write_bytes(os.urandom(3 << 20))
    plugins.read()
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert os.path.isabs(plugins.cache())


def test_names_that_would_end_a_field() -> None:
    assert plugins.ListedPlugin("/a b.so", "/clang", "1:2", ["/libLLVM é.so"]).can_be_listed()
    for paths in (("/a\tb", "/c", []), ("/a", "/c\n", []), ("/a", "/c", ["/l\tl"])):
        plugin, tool, libraries = paths
        assert not plugins.ListedPlugin(plugin, tool, "1:2", list(libraries)).can_be_listed()


def test_what_lies_among_other_code_is_not_listed() -> None:
    """lld would move all of it; what ran is listed in any case, since it may be assembly."""
    order = LinkOrder([b"hot", b"assembly", b"lies_alone", b"lies_among", b"f.cold"], 2, {})
    start, end = b"__hugealign_hot_start", b"__hugealign_hot_end"
    among = {b"lies_among", b"assembly"}
    assert dialects.symbols(order, among).split() == [start, b"hot", b"assembly", end, b"lies_alone", b"f.cold"]
    assert dialects.symbols(order).split() == [start, *order.names[:2], end, *order.names[2:]]


def test_names_that_thinlto_makes() -> None:
    """The number changes, and the plugin's sections are without it; the asterisk is the only one that is a pattern."""
    order = LinkOrder([b"f.llvm.12", b"g h"], 2, {})
    bitcode = Choices([*order.names, b"f.llvm.", b"f.llvm.x", b"f", b"f*.llvm.12"], others=True)
    assert {b".text.hot.f", b".text.f.llvm.*", b".text.f.llvm.12"} <= set(bitcode.of(b"f.llvm.12"))
    for name in (b"f.llvm.", b"f.llvm.x", b"f"):
        assert not [section for section in bitcode.of(name) if b"*" in section]
    assert bitcode.of(b"f*.llvm.12") == []
    known = Choices(order.names)
    known.add(b".text.f.llvm.12\0")
    assert known.of(b"f.llvm.12") == [b".text.f.llvm.12"]
    script = dialects.script(order, bitcode, {})
    assert b"*(.text.f.llvm.*)\n" in script
    assert b'*(".text.g h")\n' in script
