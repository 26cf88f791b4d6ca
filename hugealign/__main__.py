"""Entry point of ``hugealign COMMAND`` and ``python3 -m hugealign``."""

import _signal  # type: ignore[import-not-found]

# An interrupt ends us without a traceback until `main` is ready for it.  (`signal` would take longer to import than the
# rest takes to run.)
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # our parent does not ignore it
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import gc
import os
import sys

# The launcher runs this file by its path, so a bare checkout needs no installation.  The path goes last, so
# nothing beside the package can shadow the standard library.
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from hugealign.cli import main
from hugealign.environment import restore

restore()
status = main(sys.argv[1:])
gc.freeze()  # otherwise the interpreter looks for cycles once more at exit: 8 ms after `top`
sys.exit(status)
