# SPDX-License-Identifier: Apache-2.0
# What a first word that is an option was meant for: sourced by launch.sh with its words, which would take time to read at
# each compilation.  If a command of ours was meant, this says so and exits.
# shellcheck shell=sh

case ${1%%=*} in
    # <<< options: written by make tables
    --all | --allow-empty | --baseline | --binary | --blocks | --build | --cap | --check | --containers | \
        --copies | --cpu | --debug-file-of | --debuginfo | --dry-run | --emit | --everything | --fail-on | \
        --file | --fix | --for | --force | --format | --frequency | --hold | --how | --ignore | --in-place | \
        --install | --jobs | --json | --keep-going | --kernels | --least | --level | --libs | --load | --max | \
        --max-executable | --max-unpacked | --min-coverage | --min-text | --min-windows | --now | --null | \
        --old-binary | --once | --order | --outdated | --owner | --place | --quiet | --recursive | --renew | \
        --replace | --rounds | --seconds | --select | --store | --threshold | --type | --undo | --uninstall | \
        --vs | --wait | --watch | --weight | --windows | --within)
    # >>> options
        fail 2 "$1: an option follows its command: hugealign COMMAND $1 ..." ;;
esac
case $1/${2-} in
    -[0ajnqrv]*/verify | -[0ajnqrv]*/diff | -[0ajnqrv]*/fix | -[0ajnqrv]*/run | -[0ajnqrv]*/warm | \
        -[0ajnqrv]*/enable | -[0ajnqrv]*/ps | -[0ajnqrv]*/top | -[0ajnqrv]*/advise | -[0ajnqrv]*/doctor)
        [ -e "$2" ] || fail 2 "$1: an option follows its command: hugealign $2 $1 ..."
        ;;
esac
