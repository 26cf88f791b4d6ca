#!/bin/sh
# Install what the tests need: tools from Debian's packages, Python packages into the environment named by $1.
# Further arguments are packages that only some tests need.
# What cannot be installed is said in one line; the tests that need it are then skipped with that reason.
set -eu
venv=$1
shift
packages='gcc g++ binutils clang-14 clang-19 clang lld-14 lld-19 mold cmake ninja-build shellcheck
    clang-format-14 elfutils patchelf llvm-14 llvm-14-dev llvm-19-dev python3-venv
    gcc-aarch64-linux-gnu g++-aarch64-linux-gnu gcc-riscv64-linux-gnu libc6-dev-riscv64-cross
    gcc-s390x-linux-gnu libc6-dev-s390x-cross qemu-user musl-tools dwz chrpath cpio
    libclang-rt-14-dev libclang-rt-19-dev llvm-19 ccache sccache distcc libtool libtool-bin autoconf automake
    meson python3-setuptools python3-dev python3-pyelftools make git rpm zip zstd xz-utils bzip2 umoci skopeo checksec
    gdb lldb python3-lldb linux-perf valgrind strace uftrace bpftrace debuginfod libc6-dbg systemd libhugetlbfs-bin libhugetlbfs0 bolt-19 libbolt-19-dev
    libgoogle-perftools4 build-essential debhelper dpkg-dev gpgv debian-archive-keyring e2fsprogs
    tcc libjemalloc2 libtcmalloc-minimal4 xfsprogs btrfs-progs acl libcap2-bin tcl
    mandoc man-db groff-base zsh fish bash-completion dh-python lintian'
command -v go >/dev/null || packages="$packages golang-go" # for `go tool pprof`
packages="$packages $*"
# What Debian 13 has by another name, or apart.
newer='binutils-gold binutils-gold-aarch64-linux-gnu libgoogle-perftools4t64'

missing=
for package in $packages; do
    # shellcheck disable=SC2016
    status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [ "$status" = 'install ok installed' ] || missing="$missing $package"
done

if [ -n "$missing" ]; then
    as_root=
    if [ "$(id -u)" != 0 ]; then
        as_root='sudo -n'
        sudo -n true 2>/dev/null || as_root=none
    fi
    if [ "$as_root" = none ] || ! command -v apt-get >/dev/null; then
        echo "setup: cannot install without root and apt:$missing" >&2
    else
        export DEBIAN_FRONTEND=noninteractive
        options='-y -q --no-install-recommends -o DPkg::Lock::Timeout=300'
        $as_root apt-get -q update >/dev/null || echo 'setup: apt-get update failed; trying with the lists there are' >&2
        wanted=
        for package in $missing; do
            if apt-cache show "$package" >/dev/null 2>&1; then
                wanted="$wanted $package"
            else
                echo "setup: cannot install $package, which this system does not have" >&2
            fi
        done
        for package in $newer; do
            ! apt-cache show "$package" >/dev/null 2>&1 || wanted="$wanted $package"
        done
        # shellcheck disable=SC2086
        if ! $as_root apt-get install $options $wanted >/dev/null; then
            for package in $wanted; do
                $as_root apt-get install $options "$package" >/dev/null 2>&1 || echo "setup: cannot install $package" >&2
            done
        fi
    fi
fi

python=/usr/bin/python3
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || python=python3
"$python" -m venv "$venv"
# The groups alone: hugealign itself runs from the checkout.  Python compiles what is used when it is used.
"$venv/bin/python" tests/requirements.py test >"$venv/requirements.txt"
"$venv/bin/python" -m pip install -q --no-compile --disable-pip-version-check -r "$venv/requirements.txt"
