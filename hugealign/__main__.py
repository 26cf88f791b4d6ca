"""Entry point of ``hugealign COMMAND`` and ``python3 -m hugealign``."""

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
