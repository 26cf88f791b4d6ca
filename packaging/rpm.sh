#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make rpm: the RPM package, source and binary, below build/rpm.  Needs rpmbuild.
set -eu
umask 022
command -v rpmbuild >/dev/null || {
    echo 'make rpm: rpmbuild not found; on Debian: apt-get install rpm' >&2
    exit 3
}
cd "$(dirname "$0")/.."
out=${1:-build/rpm}
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' hugealign/version.py)
epoch=${SOURCE_DATE_EPOCH:-1795420800} # of packaging/hugealign.spec: two builds are the same bytes
out=$(realpath -m -- "$out")
case $out in
    *[[:space:]]*)
        echo "make rpm: rpmbuild takes no directory with a blank in its name: $out; move the checkout" >&2
        exit 3
        ;;
esac
rm -rf "$out"
mkdir -p "$out/SOURCES"
tar -c --exclude=__pycache__ --exclude='*.pyc' --exclude='*~' --sort=name --owner=0 --group=0 --numeric-owner \
    --mtime="@$epoch" --transform="s,^,hugealign-$version/," \
    bin cmake hugealign lab/README.md lab/src ld-scripts lld-plugin packaging share LICENSE Makefile README.md |
    gzip -n >"$out/SOURCES/hugealign-$version.tar.gz"
touch -d "@$epoch" "$out/SOURCES/hugealign-$version.tar.gz" # the source package keeps this
# Debian's rpm knows none of its packages by their RPM names.
nodeps=$(rpm -q python3 >/dev/null 2>&1 || echo --nodeps)
# shellcheck disable=SC2086
SOURCE_DATE_EPOCH=$epoch rpmbuild -ba $nodeps --define "_topdir $out" --define "_buildhost localhost" \
    --define "clamp_mtime_to_source_date_epoch 1" --define "use_source_date_epoch_as_buildtime 1" packaging/hugealign.spec
