"""Finding libraries: what ldconfig has found, and programs that are damaged."""

import os

from hypothesis import given
from hypothesis import strategies as st

from hugealign.elf.dynamic import read_dynamic
from hugealign.elf.image import read_image
from hugealign.errors import HugealignError
from tests.unit.system.test_libraries import PROGRAM


@given(st.lists(st.tuples(st.integers(0, min(len(PROGRAM), 8192) - 1), st.integers(0, 255)), max_size=8))
def test_altered_program_is_read_or_refused(changes: list[tuple[int, int]]) -> None:
    data = bytearray(PROGRAM)
    for place, value in changes:
        data[place] = value
    fd = os.memfd_create("altered")
    try:
        os.write(fd, data)
        image = read_image(fd)
        result = read_dynamic(fd, image)
        assert all("\0" not in name for name in result.needed)
    except HugealignError:
        pass
    finally:
        os.close(fd)
