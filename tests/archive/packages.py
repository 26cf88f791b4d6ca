"""The source packages of packages.toml."""

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Package:
    """One source package; packages.toml says what the fields mean."""

    name: str
    system: str
    large: bool = False
    cause: str = ""


def packages() -> list[Package]:
    """Return all of them, in their sequence."""
    text = Path(__file__).with_name("packages.toml").read_text(encoding="utf-8")
    return [Package(**fields) for fields in tomllib.loads(text)["package"]]
