"""Parse numbers in untrusted text: ASCII digits, nothing else, up to a bound that the caller gives.

All parsers of numbers use this module.  `int` alone also takes signs, underscores, blanks and the digits of other
scripts: a size of -1 in a cpio header once meant "without limit" to a decompressor.  It also raises a bare ValueError
for 5,000 digits, and takes quadratic time for somewhat fewer.
"""

from hugealign.errors import NumberFormatError

_LONGEST = 32  # digits, leading zeros included; 2**64 has 22 octal ones
_DIGITS = {8: "01234567", 10: "0123456789", 16: "0123456789abcdefABCDEF"}
_BYTES = {base: digits.encode() for base, digits in _DIGITS.items()}
_NAMES = {8: "an octal", 10: "a decimal", 16: "a hexadecimal"}


def decimal(text: str | bytes, maximum: int, name: str = "") -> int:
    """Return the number that the decimal digits *text* represent, at most *maximum*.

    *name* names the number in the message.  Raises NumberFormatError.
    """
    return _number(text, 10, maximum, name)


def octal(text: str | bytes, maximum: int, name: str = "") -> int:
    """Return the number that the octal digits *text* represent; otherwise like `decimal`."""
    return _number(text, 8, maximum, name)


def hexadecimal(text: str | bytes, maximum: int, name: str = "") -> int:
    """Return the number that the hexadecimal digits *text* represent, without a prefix; otherwise like `decimal`."""
    return _number(text, 16, maximum, name)


def _number(text: str | bytes, base: int, maximum: int, name: str) -> int:
    # strip() leaves nothing exactly if every character is a digit.
    rest = text.strip(_DIGITS[base]) if isinstance(text, str) else text.strip(_BYTES[base])
    if text and not rest and len(text) <= _LONGEST:
        number = int(text, base)
        if number <= maximum:
            return number
    shown = text[:_LONGEST] if isinstance(text, str) else text[:_LONGEST].decode("latin-1")
    more = "..." if len(text) > _LONGEST else ""
    front = f"{name}: " if name else ""
    raise NumberFormatError(f"{front}{shown!a}{more} is not {_NAMES[base]} number up to {maximum}")
