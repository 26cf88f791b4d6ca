#!/bin/sh
# build.sh PACKAGE: build a source package twice, as Debian's build machines do and with hugealign.  Run as root in a
# Debian of its own, whose /result has hugealign's package.  Leaves there how: sequence or shims; and for each of plain
# and hugealign: NAME.status, NAME.log, NAME/ with the packages.  Status 3: it could not be made ready.
set -u
package=$1
export DEBIAN_FRONTEND=noninteractive
options='-y -q --no-install-recommends'

ready() {
    # shellcheck disable=SC2086
    apt-get $options --only-source --arch-only build-dep "$package" &&
        cd /build && apt-get -q --only-source --download-only source "$package"
}
ready >/result/ready.log 2>&1 || { apt-get -q update && ready; } >/result/ready.log 2>&1 || exit 3
useradd --create-home --home-dir /build/home builder

# A build machine has no network but the loopback, and its user is not root.
build() {
    name=$1
    shift
    # shellcheck disable=SC2016
    unshare --net sh -c 'ip link set lo up; cd /build/tree; exec setpriv --reuid builder --regid builder --clear-groups "$@"' \
        build env DEB_BUILD_OPTIONS="parallel=$(nproc)" DPKG_DEB_COMPRESSOR_TYPE=none HOME=/nonexistent "$@" >"/result/$name.log" 2>&1 </dev/null
    echo $? >"/result/$name.status"
    mkdir "/result/$name"
    find /build -maxdepth 1 -name '*.deb' -exec mv {} "/result/$name/" \;
}

unpack() {
    rm -rf /build/tree
    dpkg-source --no-check -x /build/*.dsc /build/tree >/dev/null 2>>/result/ready.log || exit 3
    chown -R builder: /build
}

unpack
dpkg-parsechangelog -l /build/tree/debian/changelog -S Version >/result/version
build plain dpkg-buildpackage -us -uc -B

dpkg -i /result/hugealign.deb >>/result/ready.log 2>&1 || exit 3
unpack
if grep -Eq '^[[:space:]]+dh ' /build/tree/debian/rules; then
    echo sequence >/result/how
    # The one line that a maintainer writes.  A finding would end the build; here the next step reads all of them.
    sed -i '0,/^Build-Depends:/s//Build-Depends: dh-sequence-hugealign,/' /build/tree/debian/control
    printf '\noverride_dh_hugealign:\n\tdh_hugealign -- --fail-on never\n' >>/build/tree/debian/rules
    build hugealign dpkg-buildpackage -us -uc -B
else
    echo shims >/result/how
    build hugealign hugealign build -- dpkg-buildpackage -us -uc -B
fi
