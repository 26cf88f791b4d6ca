#!/bin/sh
# From nothing: an environment with PySpark in build/fleet; PostgreSQL in two releases, recorded, their counts merged by a
# real local cluster of two workers, the newer one linked in the order of all, and its misses; fleets of up to 10,000
# hosts (--hosts N), merged by one machine and by the cluster, of which one worker is killed; and the report of all that.
# Each finished step leaves a stamp, so a second run resumes.  --help has the options.
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
exec "$work/venv/bin/python" -m examples.fleet "$@"
