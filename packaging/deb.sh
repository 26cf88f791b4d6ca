#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make deb: the Debian package, source and binary, below build/deb.  Needs build-essential, debhelper and dh-python.
set -eu
umask 022
command -v dpkg-buildpackage >/dev/null || {
    echo 'make deb: dpkg-buildpackage not found; on Debian: apt-get install build-essential debhelper dh-python' >&2
    exit 3
}
cd "$(dirname "$0")/.."
out=${1:-build/deb}
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' hugealign/version.py)
tree=$out/hugealign-$version
rm -rf "$out"
mkdir -p "$tree"
# What the package is made of, without what Python and editors leave behind.
tar -c --exclude=__pycache__ --exclude='*.pyc' --exclude='*~' \
    bin cmake hugealign lab/README.md lab/src ld-scripts lld-plugin packaging share LICENSE Makefile README.md | tar -xC "$tree"
cp -R packaging/debian "$tree/debian"
cd "$tree"
dpkg-buildpackage -us -uc "${2:---build=full}"
