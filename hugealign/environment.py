"""What we were given by our parent, to hand on: the environment and the descriptors."""

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


def reserve_standard_descriptors() -> None:
    """Fill those of the descriptors 0, 1 and 2 that our parent has closed, until the next exec.

    Else a file that we open would get such a number: our messages would be written into it, and it would be taken from
    the linker by that linker's own stdout.  What we run finds them closed again.
    """
    while (fd := os.memfd_create("closed")) <= 2:
        pass
    os.close(fd)
