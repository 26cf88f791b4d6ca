"""The names of the product: each has one meaning (ARCHITECTURE.md, Words)."""

import ast
from collections import defaultdict

from tests.support import ROOT


def test_no_two_classes_share_a_name() -> None:
    found = defaultdict(list)
    for path in sorted((ROOT / "hugealign").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT)))
    assert len(found) > 100
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
