"""Container images: which member of the tar archive is which layer.

Formats: the OCI image layout (index.json, blobs/sha256/*), and what `docker save` writes (manifest.json).
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from hugealign.archives import tar
from hugealign.archives.source import Source

_JSON_LIMIT = 1 << 20  # bytes of one document; manifests have some KiB
_ALL_LIMIT = 1 << 24  # bytes of all documents
_BLOB = re.compile(r"blobs/\w+/|[0-9a-f]{64}")


class Layers:
    """The names of members of the tar archive *source*, with those of layers replaced; looked up when one is met."""

    def __init__(self, source: Source | None) -> None:
        self._source = source
        self._names: dict[str, str] | None = None

    def name(self, member: str) -> str:
        """Return ``layerN`` for the *member* that is one, else its own name.  Raises what reading raises."""
        if not _BLOB.match(member):
            return member
        if self._names is None:
            again = self._source.again() if self._source else None
            self._names = layers(again) if again else {}
        return self._names.get(member, member)


def layers(source: Source) -> dict[str, str]:
    """Return member -> ``layerN``, N counting from 1 at the bottom; empty if *source* is no image.

    Raises what reading the archive raises.
    """
    documents: dict[str, Any] = {}
    left = _ALL_LIMIT
    for member in tar.members(source):
        if member.source.peek(1) not in (b"{", b"["):
            continue
        text = member.source.peek(_JSON_LIMIT + 1)
        left -= len(text)
        if len(text) <= _JSON_LIMIT and left >= 0:
            try:
                documents[member.name.removeprefix("./")] = json.loads(text)
            except (ValueError, RecursionError):
                continue
    names = dict.fromkeys([*_docker(documents.get("manifest.json")), *_oci(documents, "index.json", 3)])
    return {name: f"layer{number}" for number, name in enumerate(names, 1)}


def _docker(manifest: Any) -> Iterator[str]:
    for image in manifest if isinstance(manifest, list) else []:
        names = image.get("Layers") if isinstance(image, dict) else None
        yield from (name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _oci(documents: dict[str, Any], name: str, depth: int) -> Iterator[str]:
    """Follow index -> (index ->) manifest -> layers."""
    document = documents.get(name)
    if not isinstance(document, dict) or not depth:
        return
    yield from _blobs(document.get("layers"))
    for manifest in list(_blobs(document.get("manifests"))):
        yield from _oci(documents, manifest, depth - 1)


def _blobs(descriptors: Any) -> Iterator[str]:
    for descriptor in descriptors if isinstance(descriptors, list) else []:
        digest = descriptor.get("digest") if isinstance(descriptor, dict) else None
        if isinstance(digest, str):
            yield "blobs/" + digest.replace(":", "/", 1)
