"""`hugealign doctor` as a function."""

import os
from collections.abc import Sequence

from hugealign.doctor import checks, probes
from hugealign.doctor.checks import Condition


def diagnose(paths: Sequence[str] = (os.curdir,)) -> list[Condition]:
    """Return what on this machine, and on the file systems of *paths*, stands in the way of huge text or is fine."""
    return checks.check(probes.look(paths))
