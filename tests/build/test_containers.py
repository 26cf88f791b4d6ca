"""The manifests for Kubernetes, against its own schemas: no cluster has seen them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import ROOT

MANIFESTS = sorted((ROOT / "examples" / "containers").glob("*.yaml"))


def manifest(path: Path) -> dict[str, Any]:
    result: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return result


@pytest.mark.matrix
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifest_is_what_the_schema_says(path: Path) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for version in ("1.25", "1.37"):
        kubernetes_validate.validate(manifest(path), version, strict=True)
    wrong = manifest(path)
    wrong["spec"]["no-such-field"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.37", strict=True)


def test_there_are_manifests() -> None:
    assert [path.stem for path in MANIFESTS] == ["daemonset", "initcontainer"]
