"""Records for the code paths of a link and of `run`, where `dataclasses` would cost more than the work itself."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self, dataclass_transform
else:

    def dataclass_transform(**_: object) -> object:
        """Change nothing; type checkers learn that the annotations of a class are its fields."""
        return lambda cls: cls


if TYPE_CHECKING:
    once = property
else:

    class once:  # noqa: N801 - reads as property does
        """A property of a `Record` that is computed on first use, then kept beside the fields.

        It works like `functools.cached_property`, whose import costs a link more than the property saves.
        """

        def __init__(self, compute: "Callable[[Any], Any]") -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __get__(self, record: "Any", _: object = None) -> "Any":
            if record is None:
                return self
            value = record.__dict__[self._compute.__name__] = self._compute(record)
            return value


@dataclass_transform(frozen_default=True)
class Record:
    """A replacement for a frozen dataclass.  Only type checkers check the number of values and their types.

    Names that are imported only for type checkers are quoted: Python 3.14 looks them up late.
    """

    def __init__(self, *values: "Any", **named: "Any") -> None:
        fields = self.__dict__
        fields.update(zip(type(self).__annotations__, values))  # noqa: B905  # strict= would double the cost
        if named:
            fields.update(named)

    def changed(self, **changes: "Any") -> "Self":
        """Return the record with other values in the fields *changes*."""
        fields = type(self).__annotations__
        # The rest are values of `once`, which may be others then.
        return type(self)(**{name: value for name, value in self.__dict__.items() if name in fields} | changes)

    def __eq__(self, other: object) -> bool:
        return _values(self) == _values(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(_values(self))

    def __repr__(self) -> str:
        named = zip(type(self).__annotations__, _values(self), strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in named)})"


def _values(record: object) -> "tuple[Any, ...]":
    return tuple(map(record.__getattribute__, type(record).__annotations__))
