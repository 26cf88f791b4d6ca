#!/bin/sh
# One of hugealign's examples: `hugealign status --undo` removes it.
# Fix and warm the files in a list, one path a line, after an upgrade has replaced them.
# A file that is fixed already takes a tenth of a second.  One that cannot be fixed does not stop the others.
set -u
list=${1:-/etc/hugealign/fix.list}
[ -r "$list" ] || exit 0
status=0
while IFS= read -r file || [ -n "$file" ]; do
    case $file in
    '' | '#'*) continue ;;
    /*) ;;
    *) file=./$file ;; # never an option
    esac
    [ -f "$file" ] || continue
    if hugealign fix --in-place "$file"; then
        hugealign warm "$file"
    else
        status=1
    fi
done <"$list"
exit "$status"
