"""Names of systemd's units, as people type them (systemd.unit(5))."""

import os
from contextlib import suppress

from hugealign.diagnosis.values import Diagnosis

#: The directories of units; the first one that has a unit wins.
DIRECTORIES = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/lib/systemd/system",
)
_SERVICE = ".service"
#: Of what is not a service; the manager starts services for the first three.
_KINDS = ("socket", "timer", "path", "target", "mount", "automount", "swap", "slice", "scope", "device")
_NAME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.\\-@"


def service(unit: str) -> str:
    """Return the full name of the service that *unit* means; if it is an alias, that of the service itself."""
    name = unit if unit.endswith(_SERVICE) else f"{unit}{_SERVICE}"
    if not set(name) <= set(_NAME):
        return name
    for directory in DIRECTORIES:
        with suppress(OSError, ValueError):
            other = os.path.basename(os.readlink(f"{directory}/{name}"))
            # An enabled instance is a link to its template.
            return name if not other.endswith(_SERVICE) or is_template(other) else other
        if os.path.lexists(f"{directory}/{name}"):
            break
    return name


def exists(unit: str) -> bool:
    """Return whether there is a file of the service *unit*, or of the template that it is an instance of."""
    first, at, _ = stem(unit).partition("@")
    names = {f"{stem(unit)}{_SERVICE}", f"{first}{at}{_SERVICE}"}
    return set(unit) <= set(_NAME) and any(os.path.exists(f"{place}/{name}") for place in DIRECTORIES for name in names)


def stem(unit: str) -> str:
    """Return the name of the service *unit* without ``.service``."""
    return unit.removesuffix(_SERVICE)


def short(unit: str) -> str:
    """Return the shortest name by which commands find the service *unit*."""
    return unit if refusal(stem(unit)) else stem(unit)


def is_template(unit: str) -> bool:
    """Return whether *unit* is a template of services, not an instance."""
    return stem(unit).endswith("@")


def refusal(unit: str) -> Diagnosis | None:
    """Return why *unit* is not the name of a service that can run, None if it may be one."""
    first, _, kind = unit.rpartition(".")
    if first and kind in _KINDS:
        near = first + _SERVICE
        known = set(near) <= set(_NAME) and any(os.path.exists(f"{directory}/{near}") for directory in DIRECTORIES)
        return Diagnosis("service.other-unit", unit, {"kind": kind, "near": near if known else ""})
    if is_template(unit):
        return Diagnosis("service.template", unit, {"example": f"{stem(unit)}NAME"})
    return None
