#!/bin/sh
# usage: tests/reachable.sh COMMAND [ARGUMENT ...]
# Runs COMMAND in this checkout, under a path that an ordinary user can enter: some tests are ordinary users, and only
# root can enter /root.  The path is a mount in a namespace, so nothing is left of it, whatever ends the tests.
nobody='setpriv --reuid=65534 --regid=65534 --clear-groups'
if [ "$(id -u)" != 0 ] || $nobody test -x "$PWD/bin/hugealign" || ! $nobody true || ! unshare --mount true; then
    exec "$@"
fi 2>/dev/null
place=$(mktemp -d) || exec "$@"
chmod 755 "$place"
trap : INT # it is the tests' to end at
# shellcheck disable=SC2016
unshare --mount sh -c 'mount --bind . "$0" && cd "$0" && exec "$@"' "$place" "$@"
status=$?
rmdir "$place"
exit "$status"
