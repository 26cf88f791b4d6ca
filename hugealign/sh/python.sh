# SPDX-License-Identifier: Apache-2.0
# Find the Python that runs hugealign, without starting one to ask.
# shellcheck shell=sh

# find_python PACKAGE: set $python, or return 1.  The one that the package was installed for comes first.
find_python() {
    python=
    case $1 in
        */lib*/python3.*/*-packages/hugealign)
            root=${1%/lib*/python3.*/*-packages/hugealign}
            version=${1%/*-packages/hugealign}
            version=${version##*/}
            for candidate in "$root/bin/$version" "/usr/bin/$version" "$root/bin/python3"; do
                [ -x "$candidate" ] && python=$candidate && return 0
            done
            ;;
    esac
    # By full path, tried one by one: a version manager's stand-in for python3 on PATH can take 90 ms to start, and
    # expanding a pattern reads all of /usr/bin.
    for version in 11 12 13 14 15 16 17 18 19; do
        for candidate in "/usr/bin/python3.$version" "/usr/local/bin/python3.$version"; do
            [ -x "$candidate" ] && python=$candidate && return 0
        done
    done
    python=$(command -v python3) && "$python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}
