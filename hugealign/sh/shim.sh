# The linker shim, sourced by each file in libexec/: find the linker that the compiler driver would have run,
# run it at once if the link is certainly small, and leave every other link to hugealign.link.shim.
# No Python starts for a conftest.  Variables of the environment are data: they are never evaluated.
# shellcheck shell=sh

shims=${0%/*}
name=${0##*/}
package=${shims%/libexec}
prefix= # of the linker's name, where clang compiles for another target: aarch64-linux-gnu-
real=

fail() {
    printf 'hugealign: error: %s\n' "$2" >&2
    exit "$1"
}

# try DIRECTORY: take its linker, unless it is a shim: this one, or one that has already handed on to us.
try() {
    directory=${1%/}
    [ -z "$real" ] && [ ! "$directory" -ef "$shims" ] || return 0
    case ":${_HUGEALIGN_SHIMS-}:" in *":$directory:"*) return 0 ;; esac
    for candidate in ${prefix:+"$directory/$prefix$name"} "$directory/$name"; do
        [ ! -x "$candidate" ] || [ -d "$candidate" ] || { real=$candidate && return 0; }
    done
}

# try_list LIST: the same for each directory of a colon-separated list; an empty entry is the current one.
try_list() {
    set -f
    IFS=:
    # shellcheck disable=SC2086
    set -- $1
    unset IFS
    set +f
    for entry do
        try "${entry:-.}"
        [ -z "$real" ] || return 0
    done
}

# clang hands its children no search path: ask its own command line for -B and the target, then look beside it.
try_clang() {
    parent=$(readlink "/proc/$PPID/exe" 2>/dev/null) || return 0
    case ${parent##*/} in
        clang* | flang*) ;;
        *) return 0 ;;
    esac
    # A newline in a word would split it; then the linker beside clang is used.
    words=$(tr '\0' '\n' <"/proc/$PPID/cmdline" 2>/dev/null)
    set -f
    IFS='
'
    # shellcheck disable=SC2086
    set -- $words
    unset IFS
    set +f
    case ${1##*/} in
        *-clang*) prefix=${1##*/} prefix=${prefix%%-clang*}- ;;
    esac
    option=
    for word do
        case $option$word in
            --target=* | -target=*) prefix=${word#*=}- ;;
            -target?*) prefix=$word- ;;
        esac
        [ "$word" = -target ] && option=$word || option=
    done
    for word do
        case $option$word in
            -B-B*) ;;
            -B?*) try "${word#-B}" ;;
        esac
        [ "$word" = -B ] && option=$word || option=
    done
    try_list "${COMPILER_PATH-}"
    try "${parent%/*}"
}

if [ -n "${COLLECT_GCC-}" ]; then
    try_list "${COMPILER_PATH-}" # set by gcc for its children: its own directories, and -B of the user's
else
    try_clang
    [ -z "${COMPILER_PATH-}" ] || try_list "$COMPILER_PATH"
fi
try_list "$PATH"
[ -n "$real" ] || fail 127 "$name: no such linker behind the shim; install it, or drop -fuse-ld"

nested=${_HUGEALIGN_SHIMS-}
export _HUGEALIGN_SHIMS="$shims${nested:+:$nested}"

case ${HUGEALIGN_DISABLE-} in
    '' | 0) ;;
    1) exec "$real" "$@" ;;
    *) fail 125 'HUGEALIGN_DISABLE: not 0 or 1' ;;
esac
# An outer shim, or the linker that it runs, has called us: the work is already being done.
[ -z "$nested" ] || exec "$real" "$@"

# certainly_small ARGUMENT...: all that goes in is under 64 KiB, a quarter of the least text that is laid out.
# Libraries count as nothing only where the shared one is what the linker will find.  More words than a small
# program has are not looked through: that would take longer than what it saves.
certainly_small() {
    [ $# -lt 100 ] && [ -z "${HUGEALIGN_MIN_TEXT-}${HUGEALIGN_DEBUG-}" ] || return 1
    for word do
        case $word in
            -lgcc) ;;
            -l*)
                library=${word#-l}
                for other do
                    case $other in
                        -L?*)
                            [ ! -e "${other#-L}/lib$library.so" ] || continue 2
                            [ ! -e "${other#-L}/lib$library.a" ] || return 1
                            ;;
                    esac
                done
                return 1
                ;;
            @* | -static | --static | -Bstatic | -dn | --whole-archive) return 1 ;;
        esac
    done
    total=0
    # shellcheck disable=SC2046
    for size in $(sizes "$@"); do
        total=$((total + size))
    done
    [ "$total" -lt 65536 ]
}

# sizes ARGUMENT...: the sizes of the files among the arguments that are not shared libraries or the loader.
sizes() {
    count=$#
    for word do
        case $word in
            -* | *.so | *.so.*) ;;
            *) set -- "$@" "$word" ;;
        esac
    done
    shift "$count"
    [ $# -eq 0 ] || exec stat -L -c %s -- "$@" 2>/dev/null
}

if certainly_small "$@"; then
    exec "$real" "$@"
fi

# shellcheck source=hugealign/sh/python.sh
. "$package/sh/python.sh"
if ! find_python "$package"; then
    printf 'hugealign: warning: no python3 of version 3.11 or newer found: linked as without hugealign\n' >&2
    exec "$real" "$@"
fi
# -I -S: no site packages, no user site, no PYTHON* variables; half the start-up time and nothing foreign.
# The package's own directory is appended, so that nothing beside it can shadow the standard library.
exec "$python" -I -S -c '
import os, sys
sys.path.append(sys.argv[1])
try:
    from hugealign.link.shim import main
except Exception as error:
    message = f"hugealign: warning: linked as without hugealign, which does not load: {error!r}; install it again\n"
    os.write(2, message.encode())
    os.execv(sys.argv[2], sys.argv[2:])
main(sys.argv[2:])
' "${package%/*}" "$real" "$@"
