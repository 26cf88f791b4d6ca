# SPDX-License-Identifier: Apache-2.0
# The linker shim, sourced by each file in libexec/: find the linker that the compiler driver would have run,
# run it at once if the link is certainly small, and leave every other link to hugealign.link.main.
# No Python starts for a conftest.  Environment variables are data: they are never evaluated.
# shellcheck shell=sh

shims=${0%/*}
name=${_HUGEALIGN_NAME:-${0##*/}} # clang was given another name than ours
unset _HUGEALIGN_NAME _HUGEALIGN_LIBRARIES
package=${shims%/libexec}
prefix= # of the linker's name if clang compiles for another target: aarch64-linux-gnu-
real=
here=. # the current directory, where an empty entry of a list means that

fail() {
    printf 'hugealign: error: %s\n' "$2" >&2
    exit "$1"
}

# foreign DIRECTORY: return 0 unless it holds shims: this one, or one that has already called us.
foreign() {
    [ ! "$1" -ef "$shims" ] || return 1
    case ":${_HUGEALIGN_SHIMS-}:" in *":$1:"*) return 1 ;; esac
}

# try DIRECTORY: take its linker, unless that is a shim.
try() {
    directory=${1%/}
    [ -z "$real" ] || return 0
    foreign "$directory" || return 0
    for candidate in ${prefix:+"$directory/$prefix$name"} "$directory/$name"; do
        [ ! -x "$candidate" ] || [ -d "$candidate" ] || { real=$candidate && return 0; }
    done
}

# try_list LIST: the same for each directory of a colon-separated list; an empty entry is the current one, but not in the
# PATH of clang.
try_list() {
    set -f
    IFS=:
    # shellcheck disable=SC2086
    set -- $1
    unset IFS
    set +f
    for entry do
        [ -n "$entry$here" ] || continue
        try "${entry:-.}"
        [ -z "$real" ] || return 0
    done
}

# try_prefix PREFIX: take the linker that clang finds by a -B: in that directory, or a file whose name begins so.
try_prefix() {
    if [ -d "$1" ]; then
        try "$1"
    elif [ -z "$real" ] && [ -x "$1$name" ] && [ ! -d "$1$name" ]; then
        real=$1$name
    fi
}

# other FILE...: return 0 if one of the files is a linker, and not the one that was found.
other() {
    for file do
        [ ! -x "$file" ] || [ -d "$file" ] || [ "$file" -ef "$real" ] || ! foreign "${file%/*}" || return 0
    done
    return 1
}

# elsewhere DIRECTORY: return 0 if clang, which lies in that directory and was called as $called, might find another
# linker than the one that was found: beside the name by which it was called, beside the gcc that it takes libraries
# from, or one named after its target, which it prefers.
elsewhere() {
    machine=x86_64
    for directory in "$1/.." /usr; do
        for triple in "$directory"/lib/gcc/*; do
            triple=${triple##*/}
            [ "$triple" = '*' ] || machine=${triple%%-*}
            ! other "$directory/$triple/bin/$name" || return 0
        done
    done
    case $called in */*) ! other "${called%/*}/$name" || return 0 ;; esac
    set -f
    IFS=:
    # shellcheck disable=SC2086
    set -- $PATH
    unset IFS
    set +f
    for directory do
        case $called in
            */*) ;;
            *)
                [ ! -x "$directory/$called" ] || {
                    called=$directory/$called
                    ! other "$directory/$name" || return 0
                }
                ;;
        esac
        for vendor in pc unknown redhat suse; do
            [ ! -x "$directory/$machine-$vendor-linux-gnu-$name" ] || return 0
        done
    done
    return 1
}

# ask: take the linker that clang would run, called with $words, but for the option that leads to this shim.
ask() {
    words=$(printf '%s\n' "$words" | grep -vxF -e "-B$shims/")
    set -f
    IFS='
'
    # shellcheck disable=SC2086
    set -- $words
    unset IFS
    set +f
    for word do
        # What can be read only once has been read.
        case $word in @*) [ -f "${word#@}" ] || return 0 ;; esac
    done
    shift
    path=${COMPILER_PATH-}
    path=${path#"$shims"}
    # In front of the other words: behind -- it would be an input.
    answer=$(COMPILER_PATH=${path#:} "$called" "-print-prog-name=$name" "$@" 2>/dev/null </dev/null) || return 0
    case $answer in
        # clang finds none, and ends with 1 for that; it would take 127 for a crash.
        "$name") fail 1 "$name: no such linker behind the shim; install it, or drop -fuse-ld" ;;
        */*) [ ! -x "$answer" ] || [ -d "$answer" ] || ! foreign "${answer%/*}" || real=$answer ;;
    esac
}

# try_clang: clang passes no search path to its children: read -B from its command line, then look beside it.  Where
# more than that decides, such as a target, a toolchain or a file with options, ask clang, which takes 20 ms.
try_clang() {
    parent=$(readlink "/proc/$PPID/exe" 2>/dev/null) || return 0
    case ${parent##*/} in
        *clang* | flang*) ;;
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
    called=$1
    case ${1##*/} in
        *-clang*) prefix=${1##*/} prefix=${prefix%%-clang*}- ;;
    esac
    decides=$prefix${CCC_OVERRIDE_OPTIONS-} # what else decides
    option=
    for word do
        case $option$word in
            --target=* | -target=*) prefix=${word#*=}- decides=$word ;;
            -target?*) prefix=$word- decides=$word ;;
            --config* | --gcc-* | -gcc-* | --prefix* | --sysroot* | -m32 | -mx32 | -no-canonical-prefixes | -ccc-* | @*)
                decides=$word
                ;;
            -B?*) [ "$word" = "-B$shims/" ] || try_prefix "${word#-B}" ;;
        esac
        case $word in -target | -B) option=$word ;; *) option= ;; esac
    done
    for file in "${parent%/*}"/*.cfg /etc/clang*/*.cfg "${HOME-}"/.config/clang*/*.cfg "${HOME-}"/.llvm/*.cfg; do
        [ ! -e "$file" ] || decides=$file
    done
    [ -z "${COMPILER_PATH-}" ] || try_list "$COMPILER_PATH"
    if [ -z "$real" ]; then # else nothing comes before that
        try "${parent%/*}"
        here=
        try_list "$PATH"
        [ -n "$decides" ] || ! elsewhere "${parent%/*}" || decides=yes
    fi
    [ -z "$decides" ] || ask
}

if [ -n "${_HUGEALIGN_LINKER-}" ]; then
    real=$_HUGEALIGN_LINKER # clang was given a path
    unset _HUGEALIGN_LINKER
elif [ -n "${COLLECT_GCC-}" ]; then
    try_list "${COMPILER_PATH-}" # set by gcc for its children: its own directories, and the user's -B
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
    1)
        [ "${HUGEALIGN_DEBUG-}" != 1 ] || printf 'hugealign: debug: left alone: HUGEALIGN_DISABLE=1\n' >&2
        exec "$real" "$@"
        ;;
    *) fail 125 'HUGEALIGN_DISABLE: not 0 or 1' ;;
esac
# An outer shim, or the linker that it runs, has called us: the work is already being done.
[ -z "$nested" ] || exec "$real" "$@"
# A pipe can be read only once, and we may link twice.  No build names one like an object, and there can be thousands.
once=
for word do
    case $word in
        *.[oa] | -[lLz]*) continue ;;
        */dev/stdin | */dev/fd/* | */proc/*/fd/*) file= ;;
        -*=*) file=${word#*=} ;;
        *) file=${word#@} ;;
    esac
    [ -n "$file" ] && [ ! -p "$file" ] || { once=once:$word && break; }
done

# brings_nothing LIBRARY: return 0 unless that is a linker script that names objects, archives or other libraries.  A script has no execute
# permission, as linkers give their output, nor is it a link, as of an installed library: most libraries need not be read.
brings_nothing() {
    [ ! -L "$1" ] && [ ! -x "$1" ] || return 0
    while read -r line || [ -n "$line" ]; do
        case $line in
            ?ELF*) return 0 ;;
            *.[oa] | *.[oa][!A-Za-z0-9_.+-]* | *-l[A-Za-z0-9_:]*) return 1 ;;
        esac
    done <"$1"
}

# on_inputs COMMAND ARGUMENT...: become the command on the objects and archives among the arguments.  Return 1 if there
# is any other input whose size says nothing about what it brings: a thin archive, a linker script.
on_inputs() {
    action=$1
    shift
    count=$# previous=
    for word do
        case $previous$word in
            # <<< arguments: written by make tables
            -m | -z | -L | -T | -e | -h | -o | -soname | -dynamic-linker | -plugin | -rpath | \
                -rpath-link) previous=$word && continue ;;
            # >>> arguments
            -*) ;; # an option, perhaps with its argument
            *.o) set -- "$@" "$word" ;;
            *.a)
                magic=
                read -r magic <"$word" || return 1
                [ "$magic" = '!<arch>' ] || return 1
                set -- "$@" "$word"
                ;;
            *.so | *.so.[0-9]*) brings_nothing "$word" || return 1 ;;
            *) return 1 ;;
        esac
        previous=
    done 2>/dev/null
    shift "$count"
    [ $# -eq 0 ] || "$action" "$@"
}

sizes() {
    exec stat -L -c %s -- "$@" 2>/dev/null
}

# Code that is yet to be generated has no size: GCC's LTO objects, LLVM's bitcode.  A false alarm does no harm.
lto() {
    LC_ALL=C exec grep -q -a -s -e '\.gnu\.lto_' -e '\.llvm\.lto' -e '^BC' -- "$@"
}

# only_shared ARGUMENT...: return 0 if the linker will find a shared object for every library except libgcc.
only_shared() {
    for word do
        case $word in
            -lgcc) ;;
            -l*)
                library=${word#-l}
                for other do
                    case $other in
                        -L?*)
                            [ ! -e "${other#-L}/lib$library.so" ] || case $library in
                                c | m | gcc_s | pthread) continue 2 ;; # of those it is known
                                *) brings_nothing "${other#-L}/lib$library.so" && continue 2 || return 1 ;;
                            esac
                            [ ! -e "${other#-L}/lib$library.a" ] || return 1
                            ;;
                    esac
                done
                return 1
                ;;
            @* | -static | --static | -Bstatic | -dn | --whole-archive) return 1 ;;
        esac
    done
}

# The size of all inputs, in bytes; not looked up for a hundred words or more, which no small program has.
# <<< settings: written by make tables
settings=${HUGEALIGN_PAGE_SIZE-}${HUGEALIGN_MIN_TEXT-}${HUGEALIGN_ONLY-}
settings=$settings${HUGEALIGN_SKIP-}${HUGEALIGN_CHECK-}${HUGEALIGN_DEBUG-}
limit=262144 early=4194304
# >>> settings
total=0
if [ -n "$once" ]; then
    total=$limit
elif [ $# -ge 100 ]; then
    total=$early
elif [ -z "$settings" ]; then
    sizes=$(on_inputs sizes "$@") || sizes=$limit
    for size in $sizes; do
        total=$((total + size))
    done
fi

# The inputs are smaller than what is laid out: the link runs at once, and no Python starts.  Less than a quarter of
# that needs no look at the objects, so a conftest does not pay for one.
if [ -z "$settings" ] && [ "$total" -lt "$limit" ] && only_shared "$@"; then
    [ "$total" -ge $((limit / 4)) ] || exec "$real" "$@"
    (on_inputs lto "$@")
    [ $? -ne 1 ] || exec "$real" "$@"
fi

# shellcheck source=hugealign/sh/python.sh
. "$package/sh/python.sh"

# without_python WHY: the link cannot be looked at, so it is plain.
without_python() {
    [ "${HUGEALIGN_CHECK-}" != error ] || fail 125 "$1: not linked, because HUGEALIGN_CHECK=error needs it"
    printf 'hugealign: warning: %s: linked without hugealign\n' "$1" >&2
}
if ! find_python "$package"; then
    without_python 'no python3 of version 3.11 or newer found'
    exec "$real" "$@"
fi

# The environment can give Python libraries that it cannot use.  The system's Python needs none of LD_LIBRARY_PATH, so
# only the linker gets it (run_python below); whether another Python starts costs a start.  What LD_PRELOAD names may
# change paths for all of a build (fakechroot), and what it needs comes from LD_LIBRARY_PATH.
case ${LD_PRELOAD:+preloaded}$python in
    /usr/bin/*) libraries=${LD_LIBRARY_PATH-} ;;
    *)
        libraries=
        if [ -n "${LD_LIBRARY_PATH-}${LD_PRELOAD-}" ] && ! "$python" -I -S -c '' 2>/dev/null; then
            without_python "$python does not start with this LD_LIBRARY_PATH"
            exec "$real" "$@"
        fi
        ;;
esac

# Python does not start where standard input is a directory (init_sys_streams in its pylifecycle.c).
[ ! -d /dev/stdin ] || exec </dev/null

# run_python WORD...: become hugealign.link.main; the last words are the linker and its arguments.
# -I -S: no site packages, no user site, no PYTHON* variables; half the startup time, and no code from elsewhere.
# The package's own directory is appended, so nothing beside it can shadow the standard library.
run_python() {
    [ -z "$libraries" ] || { export _HUGEALIGN_LIBRARIES="$libraries" && unset LD_LIBRARY_PATH; }
    exec "$python" -I -S -c '
import gc, os, sys
gc.disable() # a process of milliseconds has no garbage to look for
sys.path.append(sys.argv[1])
try:
    from hugealign.link.main import main
except KeyboardInterrupt:
    import _signal
    _signal.signal(2, _signal.SIG_DFL) # end as a linker would, and say as little
    os.kill(os.getpid(), 2)
except Exception as error:
    message = f"hugealign: warning: linked without hugealign, which does not load: {error!r}; reinstall hugealign\n"
    os.write(2, message.encode())
    while sys.argv[2] in ("bfd", "lld") and os.read(0, 65536):
        pass # the linker that was started must not write beside the one that we become
    if "_HUGEALIGN_LIBRARIES" in os.environ:
        os.environ["LD_LIBRARY_PATH"] = os.environ.pop("_HUGEALIGN_LIBRARIES")
    if os.environ.get("HUGEALIGN_CHECK") == "error":
        os._exit(125) # what was not checked must not pass
    os.execv(sys.argv[3], sys.argv[3:])
main(sys.argv[2:])
' "${package%/*}" "$@"
}

# A large and usual link starts at once, with the words that hugealign.link.main would add, while Python loads.  That
# hides Python's startup, 10 ms, which is the extra cost of a link.  The linker's messages go to Python, its status
# last.  Python still reads the command line, and repeats the link if it disagrees.  With a profile, the order has to be
# read first.
scripts=$package/ld-scripts
[ -d "$scripts" ] || scripts=${package%/*}/ld-scripts
dialect=
[ -n "$settings${HUGEALIGN_PROFILE-}" ] || [ "$total" -lt $early ] || if [ "$real" -ef "${real%/*}/ld.bfd" ]; then
    dialect=bfd
else
    case ${real##*/} in ld.lld | ld.lld-[0-9]*) dialect=lld ;; esac
fi
if [ -n "$dialect" ] && [ -e /proc/self/fd ]; then
    # Options that not every build for x86-64 gives are unusual: hugealign.link.main might leave such a link alone, or
    # the linker might print something on stdout.  This is a loop and not a function, since passing a thousand words to
    # a function takes as long as starting a process.
    previous=
    for word do
        case $previous$word in
            [!-@]*) continue ;; # an input
            # <<< usual: written by make tables
            -m | -z | -e | -h | -o | -soname | -dynamic-linker | -plugin | -rpath | \
                -rpath-link) previous=$word && continue ;;
            -o- | -o/dev/* | -o/proc/*) dialect= ;;
            -melf_x86_64 | -znow | -zrelro | -znorelro | -zdefs | -zorigin | -znoexecstack | -ztext | -znotext | \
                -zseparate-code | -zstack-size=* | -zpack-relative-relocs | -pie | -shared | -static | -e* | -h* | \
                -o* | -soname* | -dynamic-linker* | -plugin/* | -plugin-opt=/* | -plugin-opt=-fresolution=* | \
                -plugin-opt=-pass-through=* | -rpath* | -l* | -L?* | -O* | -s | -S | -x | -E | --build-id* | \
                --eh-frame-hdr | --hash-style=* | --sysroot=* | --as-needed | --no-as-needed | --push-state | \
                --pop-state | --start-group | --end-group | '-(' | '-)' | --gc-sections | --export-dynamic | \
                -export-dynamic | --no-undefined | --version-script=* | --enable-new-dtags | --disable-new-dtags | \
                --whole-archive | --no-whole-archive | -Bstatic | -Bdynamic) ;;
            # >>> usual
            -* | @*) dialect= ;;
        esac
        previous=
    done
fi
if [ -n "$dialect" ] && [ -e /proc/self/fd ]; then
    {
        # <<< link: written by make tables
        "$real" -T "$scripts/$dialect-x86_64.ld" "$@" "$scripts/pad-x86_64.o" \
            -z max-page-size=0x200000 -z separate-code 2>&1
        # >>> link
        printf '\n%s' "$?" # 2>/dev/null below: the shell itself has nothing to say about a killed linker
    } 2>/dev/null | run_python "$dialect" "$real" "$@"
    status=$?
    # If a signal killed it, the same signal kills us, and the driver sees what it would have seen.  There are 64.
    [ "$status" -le 128 ] || [ "$status" -gt 192 ] || kill -"$((status - 128))" $$
    exit "$status"
fi
run_python "$once" "$real" "$@"
