"""Functions copied into sections in the order of a profile."""

from hugealign.link.order.copies import groups, is_hot


def test_parts_of_an_order() -> None:
    assert groups(2, 3) == [b".Hugealign.hot.00", b".Hugealign.hot.01", b".Hugealign.rest.00"]
    parts = groups(1000, 3000)
    assert parts == sorted(parts)
    assert len(set(parts)) == 128
    assert sum(is_hot(part.decode()) for part in parts) == 1000
