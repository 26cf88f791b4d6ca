"""Unsigned LEB128 numbers: seven bits a byte, lowest first (DWARF 5, section 7.6); varints of protocol buffers."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap

_LONGEST = 10  # bytes of a number of 64 bits
_LAST = 63  # the shift of the tenth byte
_MASK = (1 << 64) - 1


def read_one(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at *at*, with all its bits, and where it ends, as a signed one does.

    Raises IndexError if *data* ends before, ValueError if it has more than ten bytes.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > _LAST:
            raise ValueError("a LEB128 number does not end")


def end_of(data: bytes, at: int) -> int:
    """Return where the number at *at* ends.  Raises IndexError."""
    while data[at] > 0x7F:
        at += 1
    return at + 1


def read_unsigned(data: "bytes | mmap.mmap", at: int, end: int, count: int = 1) -> tuple[list[int], int]:
    """Return *count* numbers, the first at *at*, and where the last ends; bits beyond the 64th are dropped.

    Raises ValueError if they do not end before *end*, or one has more than ten bytes.
    """
    numbers: list[int] = []
    value = shift = 0
    for place, byte in enumerate(data[at : min(at + _LONGEST * count, end)], at + 1):
        if byte >= 0x80 and shift < _LAST:
            value |= (byte & 0x7F) << shift
            shift += 7
        elif byte < 0x80:
            numbers.append(value | byte << shift if shift < _LAST else (value | byte << shift) & _MASK)
            if len(numbers) == count:
                return numbers, place
            value = shift = 0
        else:
            break
    raise ValueError("a LEB128 number does not end")
