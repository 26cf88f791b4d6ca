"""`hugealign doctor` as a function."""

import os
from collections.abc import Sequence

from hugealign.doctor import checks, probes
from hugealign.doctor.checks import Condition


def diagnose(paths: Sequence[str] = (os.curdir,)) -> list[Condition]:
    """Return the conditions for huge text on this machine and on the file systems of *paths*, met or not."""
    return checks.check(probes.look(paths))
