"""Write docs/reference/api.md, what other programs may use of hugealign, from the docstrings: run by ``make docs``.

It reads the source, not the objects, so that every version of Python writes the same.
"""

import ast
import inspect
import re
from importlib import import_module
from itertools import pairwise
from types import ModuleType

import hugealign

HEAD = """\
# From Python

Each command is a function that takes typed arguments, returns a record and prints nothing. Importing `hugealign` costs
nothing: what a function needs is loaded when it is first used. Python 3.11 or newer is enough, with a checkout on its
path or the wheel installed.

```python
import hugealign
from hugealign.diagnosis import render

found = hugealign.verify("build/server")
if found.status:
    print([render.text(diagnosis) for file in found.files for diagnosis in file.diagnoses])

hugealign.fix("/opt/server", hugealign.FixOptions(in_place=True))
text = hugealign.warm("/opt/server")
print(text.huge, "of", len(text.offsets), "windows are huge;", text.diagnosis)
print([(verdict.process.pid, verdict.diagnoses) for verdict in hugealign.processes(["server"]).verdicts])
```

Every error is a `hugealign.errors.HugealignError`. Its text is one line for people, safe to print; its `exit_status`
is that of the command. Sizes, addresses and offsets are integers, in bytes. What is not on this page may change in any
release; what is on it changes as [Stability](stability.md) says. For pytest and unittest there is
`hugealign.testing.assert_huge_text` ([Check every build, in CI and with CMake](../guides/ci.md)).

Written by `make docs` from the docstrings.
"""

_SECTIONS = ("Args:", "Attributes:", "Returns:", "Raises:")
#: The records that come back, in the order of the page, with their modules.
RESULTS = {
    "Verification": "verification.result",
    "FileReport": "verification.result",
    "Coverage": "elf.coverage",
    "Comparison": "verification.compare",
    "Pair": "verification.compare",
    "Fixed": "fixing.fix",
    "Way": "fixing.fix",
    "Reduced": "profile.reduce",
    "Merged": "profile.merge",
    "CachedText": "pagecache.warm",
    "Diagnosis": "diagnosis.values",
    "Remedy": "diagnosis.values",
    "Seen": "watch.ps",
    "Verdict": "watch.verdict",
    "PartVerdict": "watch.verdict",
    "Advice": "watch.advise",
    "Judged": "watch.advise_verdict",
    "Heat": "watch.heat",
    "Estimate": "profile.missing_mass",
    "Entries": "watch.advise_verdict",
    "Counted": "watch.advise_verdict",
    "Measurement": "measuring.measure",
    "Side": "measuring.measure",
    "Ratio": "measuring.interval",
    "Adapted": "watch.adapt",
    "Change": "watch.adapt",
    "Window": "watch.ranking",
    "Machine": "watch.top",
    "ProgramRow": "watch.top",
    "Order": "ordering.order",
    "Budget": "system.budget",
    "Check": "doctor.checks",
}


def names(*, functions: bool) -> list[str]:
    """Return the public functions, or the public classes."""
    result = {name: getattr(hugealign, name) for name in hugealign.__all__ if not name.startswith("_")}
    return [name for name, value in result.items() if inspect.isfunction(value) == functions]


def document() -> str:
    """Return docs/reference/api.md."""
    parts = [HEAD, "## Functions\n", *map(_public, names(functions=True))]
    parts += ["## Options\n", *map(_public, names(functions=False))]
    parts += ["## Results\n", *(_entry(import_module(f"hugealign.{module}"), name) for name, module in RESULTS.items())]
    return "\n".join(parts)


def returned(name: str) -> str:
    """Return the annotation of what the function *name* returns."""
    node = _node(import_module(getattr(hugealign, name).__module__), name)
    assert isinstance(node, ast.FunctionDef)
    assert node.returns
    return _annotation(node.returns)


def _public(name: str) -> str:
    return _entry(import_module(getattr(hugealign, name).__module__), name)


def _node(module: ModuleType, name: str) -> ast.FunctionDef | ast.ClassDef:
    tree = ast.parse(inspect.getsource(module))
    result = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef))
    return next(node for node in result if node.name == name)


def _entry(module: ModuleType, name: str) -> str:
    node = _node(module, name)
    if isinstance(node, ast.FunctionDef):
        returns = f" -> {_annotation(node.returns)}" if node.returns else ""
        return f"### {name}\n\n```python\n{_call(name, _parameters(module, node))}{returns}\n```\n\n{_text(node)}\n"
    methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
    described = [
        (ast.unparse(part.target), ast.get_docstring(ast.Module([after], [])))
        for part, after in pairwise(node.body)
        if isinstance(part, ast.AnnAssign)
    ]
    maker = next((part for part in methods if part.name == "__init__"), None)
    parameters = _parameters(module, maker) if maker else _fields(module, node)
    lines = [f"### {name}\n\n```python\n{_call(name, parameters)}\n```\n", _text(node)]
    if maker and ast.get_docstring(maker):
        lines.append(f"\n{_text(maker)}")
    if any(words for _, words in described):
        lines.append("\n**Attributes:**\n")
        lines += [f"- `{field}`: {' '.join(words.split())}" for field, words in described if words]
    shown = [part for part in methods if not part.name.startswith("_")]
    if shown:
        lines.append("")
    for part in shown:
        is_property = any(ast.unparse(decorator) == "property" for decorator in part.decorator_list)
        call = part.name if is_property else f"{part.name}({', '.join(_parameters(module, part))})"
        returns = _annotation(part.returns) if part.returns else "None"
        lines.append(
            f"- `{call}: {returns}`: {_text(part)}" if is_property else f"- `{call} -> {returns}`: {_text(part)}"
        )
    return "\n".join(lines) + "\n"


def _call(name: str, parameters: list[str]) -> str:
    line = f"{name}({', '.join(parameters)})"
    if len(line) <= 90:
        return line
    return f"{name}(\n" + "".join(f"    {parameter},\n" for parameter in parameters) + ")"


def _parameters(module: ModuleType, node: ast.FunctionDef) -> list[str]:
    args = node.args
    plain = [arg for arg in args.args if arg.arg != "self"]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(args.defaults)) + list(args.defaults)
    result = [
        _parameter(module, arg, default) for arg, default in zip(plain, defaults, strict=True) if arg.arg != "self"
    ]
    if args.kwonlyargs:
        pairs = zip(args.kwonlyargs, args.kw_defaults, strict=True)
        result += ["*", *(_parameter(module, arg, default) for arg, default in pairs)]
    return result


def _parameter(module: ModuleType, arg: ast.arg, default: ast.expr | None) -> str:
    typed = f"{arg.arg}: {_annotation(arg.annotation)}" if arg.annotation else arg.arg
    if default is None:
        return typed
    value = getattr(module, default.id) if isinstance(default, ast.Name) else None
    if isinstance(value, int) and value >= 1 << 20 and not value % (1 << 20):
        return f"{typed} = {value >> 20} << 20"
    return f"{typed} = {value!r}" if isinstance(value, str | int) else f"{typed} = {ast.unparse(default)}"


def _fields(module: ModuleType, node: ast.ClassDef) -> list[str]:
    result = [part for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)]
    return [_parameter(module, ast.arg(ast.unparse(part.target), part.annotation), part.value) for part in result]


def _annotation(node: ast.expr) -> str:
    return ast.unparse(node).replace('"', "").replace("'", "")


def _text(node: ast.FunctionDef | ast.ClassDef) -> str:
    """Return the docstring of *node*, the sections that Google's style gives it as lists of Markdown."""
    lines: list[str] = []
    listed = ""
    for line in (ast.get_docstring(node) or "").splitlines():
        if line in _SECTIONS:
            listed = line
            lines += [f"**{line}**" if line == "Returns:" else f"**{line}**\n"]
        elif listed == "Returns:" and line:
            lines[-1] += f" {line.strip()}"
        elif match := re.match(r"    (\w+): (.*)", line) if listed else None:
            lines.append(f"- `{match[1]}`: {match[2]}")
        elif listed and line.startswith("        "):
            lines.append(line[6:])
        else:
            lines.append(line)
    return "\n".join(lines)


if __name__ == "__main__":
    print(document(), end="")
