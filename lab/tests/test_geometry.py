"""The tables that are left to the program when others have entries."""

from hugealign_lab.geometry import Level, Table, parse
from hugealign_lab.simulate import without


def test_entries_for_others() -> None:
    """Of a table without sets the requested number; else whole ways; the last one stays."""
    assert without(parse("4k=128/8,2m=8"), 3).first == Level(Table(16, 8), Table(1, 5))
    assert without(parse("any=64"), 1).first == Level(Table(1, 63), None)
    assert without(parse("4k=64,2m=32/8"), 1).first.huge == Table(4, 7)
    assert without(parse("4k=64,2m=32/8"), 5).first.huge == Table(4, 6)
    assert without(parse("4k=64,2m=8"), 0) == parse("4k=64,2m=8")
    assert without(parse("4k=64,2m=8"), 9).first.huge == Table(1, 1)
