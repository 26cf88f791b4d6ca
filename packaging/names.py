"""``make check``: what documents, docstrings, comments and benches name exists.

In a page, a docstring or a comment this looks at what is between backticks, and at each word that begins with a
directory of the checkout: paths, modules and what is in them (`image.Segment`), targets of make, commands of hugealign
and their options.  In a README a file without a directory has to be below the README's.  Of lab/ it also follows the
paths that code composes of constants.  A page of docs/measured may have commands of the version that it measured.
"""

import argparse
import ast
import fnmatch
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

from hugealign import cli  # noqa: E402 - of this checkout

HISTORY = ("CHANGELOG.md",)
#: Of other projects, or made by a build.
OTHERS = {
    *("bin/postgres", "cmake/build_configurations/compiler_options.cmake", "docs/Extensions.rst", "docs/index.html"),
    *("docs/manual/format_v4.md", "opentelemetry/proto/profiles/v1development/profiles.proto", "share/man"),
    *("tests/classes", "tests/run-all", "f.llvm.NUMBER", "stackcollapse.py"),
    *("make installcheck-parallel", "make tinyconfig"),
}
_SPAN = re.compile(r"``([^`\n]+)``|`([^`\n]+)`")
_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_PATH = re.compile(r"(?<![\w./~$<>{}%@:*-])([\w.-]+(?:/[\w.*-]+)+/?)")
_FILE = re.compile(r"[\w*-]+\.(?:py|sh|ld|toml|txt|c|cc|json|o|s|S|spec)")
_DOTTED = re.compile(r"(?:[a-z_]\w*[./])*([a-z_]\w*)\.([A-Za-z_]\w*)(?:\(\))?")
_OPTION = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)")
_OPERAND = re.compile(r"(?:^|\s)(-- [A-Z]+)$")


class Checkout:
    """The files of the checkout, the names that its modules define, and the words of the command line."""

    def __init__(self, root: Path, files: list[str]) -> None:
        self.root, self.files = root, files
        directories = {str(parent) for file in files for parent in Path(file).parents} - {"."}
        self.paths = {*files, *directories}
        self.tops = {path.partition("/")[0] for path in directories}
        self.names = {Path(path).name for path in self.paths}
        self.modules: dict[str, list[str]] = {}
        for file in files:
            if file.endswith(".py"):
                name = Path(file).parent.name if file.endswith("/__init__.py") else Path(file).stem
                self.modules.setdefault(name, []).append(file)

    def missing(self, text: str, place: str) -> Iterator[str]:
        """Yield what *text* names in the file *place* and what does not exist."""
        spans = [one or two for one, two in _SPAN.findall(text)]
        wrong = [name for span in spans for name in self._in_span(span, Path(place))]
        paths = [path.rstrip("./") for path in _PATH.findall(text)]
        wrong += [path for path in paths if not self._is_path(path, Path(place))]
        yield from (name for name in wrong if name not in OTHERS)

    def _in_span(self, span: str, place: Path) -> Iterator[str]:
        words = span.split()
        if not self._is_file(span, place) or (self._is_ours(span, place) and not self._has_member(span)):
            yield span
        elif words[:1] == ["make"] and len(words) == 2 and re.fullmatch("[a-z-]+", words[1]):
            if words[1] not in _targets(self.root):
                yield span
        elif (
            words[:1] == ["hugealign"] and words[1:2] and words[1] in cli.COMMANDS and place.parts[1:2] != ("measured",)
        ):
            known, _ = _accepted(words[1])
            options = _OPTION.findall(re.split(r" -- | \| ", span)[0])
            yield from (f"hugealign {words[1]} {option}" for option in options if option not in known)
        elif place.stem in cli.COMMANDS and (match := _OPERAND.search(span)):
            yield from () if match[1] in _accepted(place.stem)[1] else (span,)

    def _is_path(self, path: str, place: Path) -> bool:
        if path.partition("/")[0] not in self.tops or path.startswith("build/"):
            return True  # of a user, or made
        beside = (str(place.parent / path), f"hugealign/{path}", f"tests/{path}", f"lab/{path}", f"docs/{path}")
        ends = ("", ".py", ".md", ".c")
        return any(self._matches(start + end) for start in (path, *beside) for end in ends) or self._has_member(path)

    def _is_ours(self, span: str, place: Path) -> bool:
        """Return whether *span* is a name in a module of this checkout; users' pages have such names of others."""
        match = _DOTTED.fullmatch(span)
        if not match or _FILE.fullmatch(span.rpartition("/")[2]) or match[1] not in self.modules:
            return False
        return span.startswith("hugealign.") or (place.parts[0] != "docs" and place.parts[0] != "examples")

    def _has_member(self, path: str) -> bool:
        """Return whether *path* is that of a module and a name in it, `elf/windows.text_windows`."""
        if not (match := _DOTTED.fullmatch(path)):
            return False
        files = self.modules.get(match[1], ())
        return match[2] in self.modules or any(match[2] in defined(self.root / file) for file in files)

    def _is_file(self, name: str, place: Path) -> bool:
        if not _FILE.fullmatch(name) or (not name.endswith(".py") and place.name != "README.md"):
            return True  # not a file, or a user's
        below = f"{place.parent}/" if place.name == "README.md" and place.parent != Path() else ""
        return any(file.startswith(below) and fnmatch.fnmatch(Path(file).name, name) for file in self.files)

    def _matches(self, path: str) -> bool:
        pattern = re.sub(r"\b[A-Z]{2,}\b", "*", path)  # a word for many, as in LANGUAGE/NAME
        return path in self.paths or ("*" in pattern and bool(fnmatch.filter(self.paths, pattern)))


@cache
def defined(path: Path) -> frozenset[str]:
    """Return the names that the module at *path* defines, or that its classes and functions set."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add(other or name)
    return frozenset(names)


@cache
def _targets(root: Path) -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@cache
def _accepted(command: str) -> tuple[frozenset[str], str]:
    """Return the options of *command*, and its usage."""
    parsers, options = [cli.command_parser(command)], set()
    usage = parsers[0].format_help()
    while parsers:
        for action in parsers.pop()._actions:  # noqa: SLF001 - argparse has no other way to list them
            options |= set(action.option_strings)
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
                parsers += action.choices.values()
    return frozenset(options), usage


def prose(path: Path) -> str:
    """Return what the file at *path* says to people: all of a page, docstrings and comments of a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return _FENCE.sub("", text)
    kinds = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    said = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join([*said, *(token.string for token in tokens if token.type == tokenize.COMMENT)])


def composed(text: str, place: Path) -> Iterator[Path]:
    """Yield the paths that the module *text* at *place* composes of its own place or the checkout's, and constants."""

    def value(node: ast.expr) -> Path | None:
        match node:
            case ast.Name(id="ROOT"):
                return ROOT
            case ast.Name(id=name) if name in places:
                return places[name]
            case ast.Call(func=ast.Name(id="Path"), args=[ast.Name(id="__file__")]):
                return place
            case ast.Attribute(value=inner, attr="parent"):
                return above.parent if (above := value(inner)) else None
            case ast.Subscript(value=ast.Attribute(value=inner, attr="parents"), slice=ast.Constant(value=int(index))):
                return above.parents[index] if (above := value(inner)) else None
            case ast.Call(func=ast.Attribute(value=inner, attr="with_name"), args=[ast.Constant(value=str(name))]):
                return above.with_name(name) if (above := value(inner)) else None
            case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=str(name))):
                return above / name if (above := value(left)) else None
        return None

    tree = ast.parse(text)
    places: dict[str, Path] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=right) if path := value(right):
                places[name] = path
    yield from (path for node in ast.walk(tree) if isinstance(node, ast.expr) and (path := value(node)))


def main() -> int:
    """Print each name, and return the exit status."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    checkout = Checkout(ROOT, [file for file in listed.split("\0") if file and (ROOT / file).exists()])
    wrong = []
    for file in checkout.files:
        path = ROOT / file
        if path.suffix in (".md", ".py") and file not in HISTORY:
            wrong += [f"{file}: {name}" for name in dict.fromkeys(checkout.missing(prose(path), file))]
        if file.startswith("lab/") and path.suffix == ".py":
            made = {str(made) for made in composed(path.read_text(encoding="utf-8"), path) if not made.exists()}
            wrong += [f"{file}: {name}" for name in sorted(made) if not name.startswith(f"{ROOT}/build/")]
    print(*(f"{line}: does not exist" for line in wrong), sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
