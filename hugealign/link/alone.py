"""A link without our shim: sh/launch.sh has run the compiler, and has the result checked."""

import os

from hugealign.errors import HugealignError
from hugealign.io.units import printable
from hugealign.link import check, running
from hugealign.settings import from_environ


def main(output: str, reason: str) -> int:
    """Say the *reason* if the *output* lacks windows; remove it and return 1 if HUGEALIGN_CHECK requests that."""
    settings = from_environ(os.environ)
    try:
        failed = settings.check == "error" and bool(check.failure(output, settings))
        if failed:
            os.unlink(output)
    except (OSError, HugealignError) as error:
        failed = settings.check == "error"
        reason = f"{output}: linked without a check, because hugealign failed: {error}"
    if failed or check.lacks_windows(output, settings):
        running.say("error" if failed else "warning", printable(reason))
    return int(failed)
