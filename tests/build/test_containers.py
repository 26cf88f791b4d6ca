"""The manifests for Kubernetes, against its own schemas; live/test_kubernetes.py has a cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import ROOT

MANIFESTS = sorted((ROOT / "examples" / "containers").glob("*.yaml"))


def manifests(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def manifest(path: Path) -> dict[str, Any]:
    (result,) = manifests(path)
    return result


@pytest.mark.matrix
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifest_is_what_the_schema_says(path: Path) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for document in manifests(path):
        for version in ("1.25", "1.37"):
            kubernetes_validate.validate(document, version, strict=True)
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(document | {"no-such-field": 1}, "1.37", strict=True)


def test_there_are_manifests() -> None:
    assert [path.stem for path in MANIFESTS] == ["daemonset", "initcontainer", "runtimeclass"]
