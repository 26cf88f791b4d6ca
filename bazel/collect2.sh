#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gcc's -wrapper: runs collect2, which looks for the linker in COMPILER_PATH, with the shims in front.  A -B on the
# command line would come too late: Bazel's own toolchain puts -B/usr/bin before all options of a rule.
case ${1-} in
    --order=*)
        export HUGEALIGN_PROFILE="$PWD/${1#*=}"
        shift
        ;;
esac
shims=${0%/*}/../hugealign/libexec
export COMPILER_PATH="$shims${COMPILER_PATH:+:$COMPILER_PATH}"
exec "$@"
