"""Programs with much code to compile, for HotSpot, PHP, LuaJIT and V8.

python -m tests.live.jit java|php|lua|js DIRECTORY

A thousand functions or more that differ, of which each runs; some run more than others.
"""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

JAVA_CLASSES, JAVA_METHODS = 60, 50
PHP_FUNCTIONS, LUA_FUNCTIONS, JS_FUNCTIONS = 2000, 6000, 6000
_LINES = 12  # statements in each function
_PHP_QUERY = """\
$db = new mysqli('localhost', 'www-data', '', 'site');
$found = $db->query('select w from t where n = ' . (1 + $s % 20000))->fetch_row();
echo $s, ' ', $found[0], "\\n";
"""


def java(directory: Path, classes: int = JAVA_CLASSES, methods: int = JAVA_METHODS) -> None:
    """Write and compile Work.java, which runs until it is ended, or for as many seconds as its argument says."""
    for number in range(classes):
        body = []
        for method in range(methods):
            seed = number * methods + method
            lines = "".join(
                f"  a = a * {31 + seed + at} + (b ^ (a >>> {1 + (seed + at) % 7}));\n"
                f"  if ((a & {1 << at % 5}) != 0) b += a % {seed + at + 3};\n"
                for at in range(_LINES)
            )
            body.append(f" static int m{method}(int a, int b) {{\n{lines}  return a ^ b;\n }}\n")
        cases = "".join(f"   case {method}: return m{method}(a, b);\n" for method in range(methods))
        run = f" static int run(int which, int a, int b) {{\n  switch (which) {{\n{cases}  }}\n  return 0;\n }}\n"
        (directory / f"C{number}.java").write_text(f"class C{number} {{\n{''.join(body)}{run}}}\n", encoding="ascii")
    cases = "".join(f"   case {number}: return C{number}.run(method, a, b);\n" for number in range(classes))
    (directory / "Work.java").write_text(
        "public class Work {\n"
        f" static int run(int c, int method, int a, int b) {{\n  switch (c) {{\n{cases}  }}\n  return 0;\n }}\n"
        " public static void main(String[] words) {\n"
        "  long end = words.length > 0 ? System.nanoTime() + Long.parseLong(words[0]) * 1000000000L : Long.MAX_VALUE;\n"
        "  int sum = 1; java.util.Random random = new java.util.Random(1);\n"
        "  while (System.nanoTime() < end)\n"
        "   for (int i = 0; i < 4096; i++) {\n"
        f"    int which = Math.min(random.nextInt({classes * methods}), random.nextInt({classes * methods}));\n"
        f"    sum += run(which / {methods}, which % {methods}, sum, i);\n"
        "   }\n"
        "  System.out.println(sum);\n }\n}\n",
        encoding="ascii",
    )
    subprocess.run(["javac", "-nowarn", "-d", directory, *sorted(directory.glob("*.java"))], check=True)


def js(directory: Path, functions: int = JS_FUNCTIONS) -> None:
    """Write work.js, which runs until it is ended."""
    each = "".join(
        f"function f{n}(x) {{ let s = 0; for (let k = 0; k < 3; k++) s += x * {n} + k; return s & 255; }}\n"
        for n in range(functions)
    )
    table = ",".join(f"f{n}" for n in range(functions))
    loop = f"let s = 0; for (;;) for (let i = 0; i < {functions}; i++) s += table[i](s & 15);\n"
    (directory / "work.js").write_text(f"{each}const table = [{table}];\n{loop}", encoding="ascii")


def php(directory: Path, functions: int = PHP_FUNCTIONS) -> None:
    """Write work.php, which runs until it is ended, or for as many seconds as its argument says."""
    (directory / "work.php").write_text(
        f"<?php\n{_php_functions(functions)}"
        "$end = count($argv) > 1 ? microtime(true) + (int)$argv[1] : PHP_INT_MAX; $s = 1;\n"
        f'while (microtime(true) < $end) {{\n{_php_calls(functions)}}}\necho $s, "\\n";\n',
        encoding="ascii",
    )


def php_site(directory: Path, functions: int = PHP_FUNCTIONS) -> None:
    """Write site.php, which runs the same for each request, and asks a MariaDB on this machine something."""
    parts = ("<?php\n", _php_functions(functions), "$s = 1;\n", _php_calls(functions), _PHP_QUERY)
    (directory / "site.php").write_text("".join(parts), encoding="ascii")


def _php_functions(functions: int) -> str:
    parts = []
    for number in range(functions):
        lines = "".join(
            f" $a = ($a * {31 + number + at}) % 1000003; if ($a & {1 << at % 5}) $b += $a % {number + at + 3};\n"
            for at in range(_LINES)
        )
        parts.append(f"function f{number}(int $a, int $b): int {{\n{lines} return $a ^ $b;\n}}\n")
    return "".join(parts)


def _php_calls(functions: int) -> str:
    # Called by name, which is what the JIT makes direct calls of; the first ones the most.
    order = random.Random(1)
    chosen = [min(order.randrange(functions), order.randrange(functions)) for _ in range(4096)]
    return "".join(f" $s += f{number}($s & 65535, {at});\n" for at, number in enumerate(chosen))


def lua(directory: Path, functions: int = LUA_FUNCTIONS) -> None:
    """Write work.lua, which runs until it is ended, or for as many seconds as its argument says."""
    parts = ["local f = {}\n"]
    for number in range(functions):
        lines = "".join(f"  a = (a * {31 + number + at} + i) % 1000003\n" for at in range(_LINES))
        parts.append(f"f[{number + 1}] = function(a)\n for i = 1, 50 do\n{lines} end\n return a\nend\n")
    parts.append(
        "local stop = arg[1] and os.time() + tonumber(arg[1]) or math.huge\nlocal s = 1\n"
        "while os.time() < stop do\n for n = 1, #f do s = f[n](s) end\nend\nprint(s)\n"
    )
    (directory / "work.lua").write_text("".join(parts), encoding="ascii")


if __name__ == "__main__":
    writers: dict[str, Callable[[Path], None]] = {"java": java, "php": php, "lua": lua, "js": js}
    writers[sys.argv[1]](Path(sys.argv[2]))
