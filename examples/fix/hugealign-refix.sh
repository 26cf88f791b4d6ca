#!/bin/sh
# Fix and warm the files that are named, one a line, in a list; after an upgrade has replaced them.
# Files that are fixed already take a tenth of a second.  One that cannot be fixed does not keep the others from it.
set -u
list=${1:-/etc/hugealign/fix.list}
[ -r "$list" ] || exit 0
status=0
while IFS= read -r file || [ -n "$file" ]; do
    case $file in '' | '#'*) continue ;; esac
    [ -f "$file" ] || continue
    if hugealign fix --in-place "$file"; then
        hugealign warm "$file"
    else
        status=1
    fi
done <"$list"
exit "$status"
