#!/bin/sh
# From nothing: an environment with PySpark in build/fleet, a fleet of HOSTS made-up hosts (100), their counts merged by
# one machine and by a real local cluster of two workers, one of which is killed midway, and the report of all that.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$here/../../build/fleet
mkdir -p "$work"
work=$(cd "$work" && pwd)
command -v java >/dev/null || {
    echo "fleet: needs Java 17 (Debian: apt install openjdk-17-jre-headless)" >&2
    exit 2
}
if [ ! -x "$work/venv/bin/spark-submit" ]; then
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install -q -r "$here/requirements.txt"
fi
cd "$here/../.."
exec "$work/venv/bin/python" -m examples.fleet.measure "$work" "$@"
