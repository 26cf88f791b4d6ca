"""The environment and the descriptors that our parent gave us, to pass on."""

import os


def as_given() -> dict[bytes, bytes]:
    """Return our initial environment, without the ``LC_CTYPE`` that Python adds to a C locale (PEP 538).

    With ``LC_CTYPE``, the programs that we run would use other quotation marks in their messages.
    """
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return dict(os.environb)
    return {name: value for name, equals, value in (entry.partition(b"=") for entry in entries) if equals}


def reserve_standard_descriptors() -> None:
    """Occupy the descriptors 0, 1 and 2 that our parent has closed, until the next exec.

    Otherwise a file that we open could get such a number: our messages would be written into it, and the linker's own
    stdout would replace it.  The programs that we run find the descriptors closed again.
    """
    while (fd := os.memfd_create("closed")) <= 2:
        pass
    os.close(fd)
