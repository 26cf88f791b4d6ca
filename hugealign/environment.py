"""The environment that we were given, to hand on."""

import os


def as_given() -> dict[bytes, bytes]:
    """Return our environment as it was at our start, without the ``LC_CTYPE`` that Python adds to a C locale (PEP 538).

    With that, the messages of what we run would come out in other quotation marks.
    """
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return dict(os.environb)
    return {name: value for name, equals, value in (entry.partition(b"=") for entry in entries) if equals}
