"""``make schemas``: the JSON schemas of the reports, from the records that they are made of.

`hugealign.diagnosis.documents` says how a record becomes JSON.  A property is required unless ``??`` can leave it
out or its description says since which version there is one: a schema also describes what older versions print.
A description that begins with "One of", or "Any of" for several, names the values in backticks.
"""

import ast
import enum
import functools
import inspect
import json
import operator
import re
import sys
import textwrap
import typing
from collections.abc import Mapping
from importlib import import_module
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any

import generated

sys.path.append(generated.ROOT)

from hugealign.diagnosis.documents import parts
from hugealign.diagnosis.values import Diagnosis

#: The records of whole reports.
REPORTS = (
    "changes.report.Report",
    "doctor.report.Report",
    "fixing.report.GainReport",
    "fixing.report.Report",
    "measuring.measure.Measurement",
    "ordering.diff.Difference",
    "ordering.drift.Report",
    "ordering.report.Report",
    "machine.report.Report",
    "map.layout.Map",
    "pagecache.report.Report",
    "run.report.Report",
    "services.enable.Report",
    "verification.compare.Comparison",
    "verification.result.Verification",
    "watch.adapt_report.Report",
    "watch.advise.Advice",
    "watch.ps_report.Report",
    "watch.top.Machine",
)
_PLAIN: dict[Any, dict[str, Any]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": 0},
    float: {"type": "number"},
    str: {"type": "string"},
}
_TOOL = {"name": {"const": "hugealign"}, "version": {"type": "string"}}
_DIAGNOSIS = "hugealign/diagnosis/diagnosis.schema.json"
_FRAME = "Sizes, addresses and offsets are integers, in bytes. Later versions can have more properties."


def texts() -> dict[str, str]:
    """Return the schemas by path."""
    result = {}
    for name in REPORTS:
        module, _, record = name.rpartition(".")
        kind = getattr(import_module(f"hugealign.{module}"), record)
        path = f"hugealign/{module.partition('.')[0]}/{kind.SCHEMA.partition('.')[2].replace('/', '-')}.schema.json"
        result[path] = json.dumps(_report(kind), indent=2, ensure_ascii=False) + "\n"
    return result


def _report(kind: Any) -> dict[str, Any]:
    known: dict[str, dict[str, Any]] = {}
    body = _record(kind, known)
    properties = {"schema": {"const": kind.SCHEMA}, "tool": _closed(_TOOL, list(_TOOL))} | body["properties"]
    whole = _closed(properties, ["schema", "tool", *body["required"]])
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": kind.SCHEMA}
    return {**head, "description": f"{_words(kind.__doc__)} {_FRAME}", **whole, "$defs": known}


def _record(kind: Any, known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for key, path, marks in parts(kind.JSON):
        of, description = _along(kind, path)
        if key == "*":
            (record,) = (one for one in typing.get_args(of) or (of,) if one is not NoneType)
            inner = _record(record, known)
            properties |= inner["properties"]
            required += [] if NoneType in typing.get_args(of) else inner["required"]
            continue
        form = _form(of if marks != "?" else of | None, known)
        values = {"enum": re.findall("`([^`]*)`", description) + [None] * ("anyOf" in form)}
        if description.startswith(("One of ", "Any of ")):
            form = values if description.startswith("One") else {"type": "array", "items": values}
        form = {"description": description, **form} if description else form
        outer, _, last = key.rpartition(".")
        if outer:
            inner = properties.setdefault(outer, _closed({}, []))
            inner["properties"][last] = form
            inner["required"].append(last)
        else:
            properties[key] = form
        if marks != "??" and "since 1." not in description and (outer or key) not in required:
            required.append(outer or key)
    return _closed(properties, required)


def _closed(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "required": required, "additionalProperties": False, "properties": properties}


def _along(kind: Any, path: list[str]) -> tuple[Any, str]:
    """Return the type and the description of what is at *path* of a record; None is possible if a part of it can be."""
    description, empty = "", False
    for name in path:
        kind, description = (typing.get_args(kind)[1], "") if name not in _fields(kind) else _fields(kind)[name]
        if NoneType in (types := typing.get_args(kind)):
            kind, empty = functools.reduce(operator.or_, (one for one in types if one is not NoneType)), True
    return kind | None if empty else kind, description


@functools.cache
def _fields(kind: type) -> dict[str, tuple[Any, str]]:
    """Return the types and descriptions of a record's fields and properties."""
    result: dict[str, tuple[Any, str]] = {}
    origin = typing.get_origin(kind) or kind
    for base in reversed([base for base in origin.__mro__ if base.__module__ != "builtins"]):
        scope = _scope(base.__module__)
        tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        nodes = next(node.body for node in tree.body if isinstance(node, ast.ClassDef))
        for node, after in pairwise([*nodes, ast.Pass()]):
            if isinstance(node, ast.AnnAssign):
                doc = ast.get_docstring(ast.Module([after], [])) or ""
                result[ast.unparse(node.target)] = _evaluated(node.annotation, scope), _words(doc)
            elif isinstance(node, ast.FunctionDef) and node.name == "__init__":  # of records with slots
                for arg in node.args.args[1:]:
                    result[arg.arg] = _evaluated(arg.annotation or ast.Name("Any"), scope), ""
            elif isinstance(node, ast.FunctionDef) and node.returns and len(node.args.args) == 1:
                result[node.name] = _evaluated(node.returns, scope), _words(ast.get_docstring(node) or "")
    return result


def _evaluated(node: ast.expr, scope: dict[str, Any]) -> Any:
    quoted = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return eval(ast.literal_eval(node) if quoted else ast.unparse(node), scope)  # noqa: S307 - of our own source


@functools.cache
def _scope(module: str) -> dict[str, Any]:
    """Return the names of *module*, and those that only type checkers import."""
    scope = dict(vars(import_module(module)))
    for node in ast.parse(inspect.getsource(import_module(module))).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module, "exec"), scope)  # noqa: S102 - of our own source
    return scope


def _words(text: str) -> str:
    return " ".join(text.replace("None", "null").split())


def _form(of: Any, known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of what has the type *of*; those of records go into *known*."""
    origin, args = typing.get_origin(of) or of, typing.get_args(of)
    if origin in (typing.Union, UnionType):
        forms = [_form(arg, known) for arg in args if arg is not NoneType]
        return {"anyOf": [*forms, {"type": "null"}]} if NoneType in args else {"anyOf": forms}
    if isinstance(origin, enum.EnumType):
        return {"enum": [vars(origin)[name].value for name in origin.__members__]}
    if origin is object:
        return {}
    if origin in _PLAIN:
        return _PLAIN[origin]
    if issubclass(origin, Diagnosis):
        with open(f"{generated.ROOT}/{_DIAGNOSIS}", encoding="utf-8") as file:
            known["diagnosis"] = json.load(file)
        return {"$ref": "#/$defs/diagnosis"}
    if hasattr(origin, "JSON"):
        if origin.__name__ not in known:
            known[origin.__name__] = {}
            known[origin.__name__] = _record(origin, known)
        return {"$ref": f"#/$defs/{origin.__name__}"}
    if issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _form(args[1], known)}
    return {"type": "array", "items": _form(args[0], known)}


if __name__ == "__main__":
    generated.write(texts(), "schemas")
