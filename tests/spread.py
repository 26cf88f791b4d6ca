"""C functions of which few run, far apart: what an order, and its profile, is for."""

from collections.abc import Sequence

_FUNCTION = """\
__attribute__((noinline)) unsigned f{0}(unsigned x) {{
    __asm__ volatile("jmp 1f\\n.fill {1}, 1, 0xcc\\n1:");
    return x * {0}u + 7;
}}
"""


def functions(count: int, size: int) -> str:
    """Return *count* functions of a little more than *size* bytes, ``f0`` and so on."""
    return "".join(_FUNCTION.format(number, size) for number in range(count))


def caller(main: str, hot: Sequence[int]) -> str:
    """Return *main* with ``{declarations}`` of the *hot* functions and their ``{names}``, for a table."""
    declarations = "".join(f"unsigned f{number}(unsigned);\n" for number in hot)
    return main.format(declarations=declarations, names=", ".join(f"f{number}" for number in hot))
