#!/bin/sh
# Builds Debian's PostgreSQL 15 plain, with CC="hugealign gcc", and in the order of a profile, and proves the difference.
# --help has the options; everything else is in examples/servers and server.py.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source=hugealign/sh/python.sh
. "$root/hugealign/sh/python.sh"
if ! find_python hugealign; then
    if [ "$(id -u)" -eq 0 ]; then sudo=; else sudo=sudo; fi
    { $sudo apt-get update && $sudo apt-get install -y --no-install-recommends python3 && find_python hugealign; } >&2 ||
        { echo 'run.sh: needs Python 3.11 or newer' >&2; exit 3; }
fi
PYTHONPATH=$root exec "$python" -m examples.servers postgres "$@"
