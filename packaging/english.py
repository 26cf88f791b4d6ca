"""``make check``: no code reads what it says to people.

A sentence may be reworded at any time, so nothing may decide by its words.  This looks for string methods, ``in``,
``==``, ``match``, keys to sort and regular expressions on what the renderer returns, on the text of an exception, and
on names, attributes and entries that hold sentences.  Such a text is followed through the plain assignments of a
function, through f-strings, and through the functions of the same module that return one; no further.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("hugealign", "lab/src")
NAMES = {"message", "reason", "sentence", "strerror"}
CHANGING = {"lower", "upper", "casefold", "title", "capitalize", "strip"}
MATCHING = {"match", "fullmatch", "search", "findall", "finditer"}
ORDERING = {"sorted", "min", "max", "groupby", "sort"}
RENDERERS = {"hugealign.diagnosis.render", "hugealign.diagnosis.forms"}
READING = {
    "startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "rsplit", "find",
    "rfind", "index", "rindex", "count", "replace", "translate", "strip", "lstrip", "rstrip",
}  # fmt: skip


class Function:
    """What within one function, or one module without its functions, holds a sentence."""

    def __init__(self, nodes: list[ast.AST], renderers: set[str], functions: set[str]) -> None:
        """Look through *nodes*; the functions of the modules *renderers* and *functions* return sentences."""
        self.nodes = nodes
        self._renderers = renderers
        self._functions = functions
        self._errors = {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
        self._names: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.Assign) and self.holds(node.value):
                self._names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
            elif isinstance(node, ast.NamedExpr) and self.holds(node.value):
                self._names.add(node.target.id)

    def holds(self, node: ast.expr) -> bool:
        """Return whether *node* is a sentence."""
        match node:
            case ast.Name(id=name):
                return name in self._names or name in NAMES
            case ast.Attribute(attr=name):
                return name in NAMES
            case ast.Subscript(slice=ast.Constant(value=name)):
                return name in NAMES
            case ast.JoinedStr(values=values):
                parts = [part.value for part in values if isinstance(part, ast.FormattedValue)]
                return len(values) == 1 and any(map(self.holds, parts))
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in CHANGING:
                return self.holds(value)
            case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)]):
                return name in self._errors
            case ast.Call(func=ast.Name(id=name)):
                return name in self._functions
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
                return name in self._renderers
        return False

    def returns(self, node: ast.expr) -> bool:
        """Return whether *node* is a function that returns a sentence."""
        match node:
            case ast.Lambda(body=body):
                return self.holds(body)
            case ast.Name(id=name):
                return name in self._functions
            case ast.Attribute(value=ast.Name(id=name)):
                return name in self._renderers
        return False

    def reads(self, node: ast.AST) -> bool:
        """Return whether *node* looks into a sentence."""
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in READING:
                return self.holds(value)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re")), args=args):
                return any(map(self.holds, args))
            case ast.Call(func=ast.Attribute(attr=name), args=args) if name in MATCHING:
                return any(map(self.holds, args))
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), keywords=keywords) if name in ORDERING:
                return any(self.returns(word.value) for word in keywords if word.arg == "key")
            case ast.Call(
                func=ast.Attribute(attr="fromkeys") | ast.Name(id="set"),
                args=[ast.Call(func=ast.Name(id="map"), args=[function, *_])],
            ):
                return self.returns(function)
            case ast.DictComp(key=key):
                return self.holds(key)
            case ast.Match(subject=subject):
                return self.holds(subject)
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
                return self.holds(right) or (self.holds(left) and not isinstance(right, ast.Name))
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                sides = (left, right)
                to_word = any(isinstance(side, ast.Constant) and side.value for side in sides)
                return any(map(self.holds, sides)) and (to_word or any(isinstance(side, ast.Call) for side in sides))
        return False


def violations(text: str) -> Iterator[int]:
    """Yield the lines of the module *text* that look into a sentence."""
    tree = ast.parse(text)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = [(f"{node.module}.{alias.name}", alias.asname or alias.name) for node in imports for alias in node.names]
    renderers = {name for full, name in names if full in RENDERERS}
    functions = {
        name for full, name in names if full.rpartition(".")[0] in RENDERERS or full == "hugealign.errors.cause"
    }
    for name, body in _bodies(tree):  # those of the module that return a sentence
        function = Function(body, renderers, functions)
        returned = [node.value for node in body if isinstance(node, ast.Return) and node.value]
        if name and returned and all(map(function.holds, returned)):
            functions.add(name)
    for _, body in _bodies(tree):
        function = Function(body, renderers, functions)
        yield from (node.lineno for node in body if isinstance(node, ast.expr | ast.Match) and function.reads(node))


def _bodies(tree: ast.Module) -> Iterator[tuple[str, list[ast.AST]]]:
    """Yield the nodes of the module, and of each function with its name, without those of the functions within."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        body = waiting.pop()
        nodes, left = [], list(ast.iter_child_nodes(body))
        while left:
            node = left.pop(0)
            nodes.append(node)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                waiting.append(node)
            else:
                left = [*ast.iter_child_nodes(node), *left]
        yield getattr(body, "name", ""), nodes


def main() -> int:
    """Print each place, and return the exit status."""
    places = [
        f"{path.relative_to(ROOT)}:{line}: reads a sentence; decide by a code, a fact or a type"
        for source in SOURCES
        for path in sorted((ROOT / source).rglob("*.py"))
        for line in violations(path.read_text(encoding="utf-8"))
    ]
    print(*places, sep="\n", end="\n" if places else "")
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main())
