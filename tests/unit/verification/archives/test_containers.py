"""Which member of an image is which layer: each document is followed once, whatever names it."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from hugealign.io.unpacking import Budget, FileSource, LimitError
from hugealign.verification.archives.containers import layers

OCI = "blobs/sha256/"


def names(documents: dict[str, Any], path: Path, most: int | None = None) -> dict[str, str]:
    with tarfile.open(path, "w") as archive:
        for name, document in documents.items():
            data = document if isinstance(document, bytes) else json.dumps(document).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    with path.open("rb") as stream:
        return layers(FileSource(stream.fileno(), 0, path.stat().st_size), Budget(path.stat().st_size, most))


def refers(*digests: str, key: str = "manifests") -> dict[str, Any]:
    return {key: [{"digest": f"sha256:{digest}"} for digest in digests]}


def test_layers_are_numbered_from_the_bottom(tmp_path: Path) -> None:
    documents = {
        "index.json": refers("inner", "second"),
        f"{OCI}inner": refers("first"),
        f"{OCI}first": refers("a", "b", key="layers"),
        f"{OCI}second": refers("a", "c", key="layers"),
    }
    assert names(documents, tmp_path / "x") == {f"{OCI}a": "layer1", f"{OCI}b": "layer2", f"{OCI}c": "layer3"}


def test_docker_save(tmp_path: Path) -> None:
    documents = {"manifest.json": [{"Layers": ["x/layer.tar", 5, "y/layer.tar"]}, {"Layers": None}, 7]}
    assert names(documents, tmp_path / "x") == {"x/layer.tar": "layer1", "y/layer.tar": "layer2"}


def test_circles_end(tmp_path: Path) -> None:
    documents = {
        "index.json": refers("a"), f"{OCI}a": refers("b", "a") | refers("l", key="layers"), f"{OCI}b": refers("a"),
    }  # fmt: skip
    assert names(documents, tmp_path / "x") == {f"{OCI}l": "layer1"}


@pytest.mark.parametrize(
    "odd", [b"[" * 100_000, b"{", b"[]", b"{}", b"[1e999]", b'{"manifests": {"digest": 1}}', b'{"layers": [3, null]}',
            b'{"manifests": [{"digest": ["x"]}]}', b"[" + b"9" * 5000 + b"]", b'{"layers": 3}'],
)  # fmt: skip
def test_what_is_no_manifest(odd: bytes, tmp_path: Path) -> None:
    assert names({"index.json": odd, "manifest.json": odd}, tmp_path / "x") == {}


def test_names_are_paid_for(tmp_path: Path) -> None:
    with pytest.raises(LimitError, match="unpacks to more than"):
        names(
            {"index.json": refers(*["a"] * 40_000, key="layers"), "y": refers(*["b"] * 40_000)},
            tmp_path / "x",
            64 << 20,
        )
