"""Container images: which member of the tar archive is which layer.

Formats: the OCI image layout (index.json, blobs/sha256/*), and what `docker save` writes (manifest.json).
"""

import json
import re
from typing import Any

from hugealign.io.unpacking import Budget, ByteSource
from hugealign.verification.archives import tar

_JSON_LIMIT = 1 << 20  # bytes of one document; manifests have some KiB
_ALL_LIMIT = 1 << 24  # bytes of all documents
_BLOB = re.compile(r"blobs/\w+/|[0-9a-f]{64}")


class Layers:
    """The names of members of the tar archive *source*, with layers renamed; these are looked up when one is met."""

    def __init__(self, source: ByteSource, budget: Budget) -> None:
        self._source = source
        self._budget = budget
        self._names: dict[str, str] | None = None

    def name(self, member: str) -> str:
        """Return ``layerN`` if *member* is a layer, else its own name.  Raises what reading raises."""
        if not _BLOB.match(member):
            return member
        if self._names is None:
            reopened = self._source.reopened()
            self._names = layers(reopened, self._budget) if reopened else {}
        return self._names.get(member, member)


class _Document:
    """What a JSON document of an image refers to: the names of other documents, and of layers."""

    __slots__ = ("layers", "manifests")

    def __init__(self, value: Any) -> None:
        self.manifests: list[str] = []
        self.layers: list[str] = []
        if isinstance(value, dict):
            self.manifests = _blobs(value.get("manifests"))
            self.layers = _blobs(value.get("layers"))
        elif isinstance(value, list):
            for image in value:
                names = image.get("Layers") if isinstance(image, dict) else None
                self.layers += [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def layers(source: ByteSource, budget: Budget) -> dict[str, str]:
    """Return member -> ``layerN``, N counting from 1 at the bottom; empty if *source* is not an image.

    Raises what reading the archive raises.
    """
    documents: dict[str, _Document] = {}
    left = _ALL_LIMIT
    for member in tar.members(source, budget):
        if member.source.peek(1) not in (b"{", b"["):
            continue
        text = member.source.peek(_JSON_LIMIT + 1)
        left -= len(text)
        if len(text) <= _JSON_LIMIT and left >= 0:
            budget.spend(len(text))
            try:
                document = _Document(json.loads(text))
            except (ValueError, RecursionError):
                continue
            budget.members(len(document.manifests) + len(document.layers))
            if document.manifests or document.layers:
                documents[member.name.removeprefix("./")] = document
    return {name: f"layer{number}" for number, name in enumerate(_followed(documents), 1)}


def _followed(documents: dict[str, _Document]) -> dict[str, None]:
    """Return the layers in their order: manifest.json, then index -> (index ->) manifest, each followed once."""
    names: dict[str, None] = {}
    waiting = ["index.json", "manifest.json"]
    while waiting:
        document = documents.pop(waiting.pop(), None)
        if document:
            names.update(dict.fromkeys(document.layers))
            waiting += reversed(document.manifests)
    return names


def _blobs(descriptors: Any) -> list[str]:
    digests = (d.get("digest") for d in descriptors if isinstance(d, dict)) if isinstance(descriptors, list) else ()
    return ["blobs/" + digest.replace(":", "/", 1) for digest in digests if isinstance(digest, str)]
