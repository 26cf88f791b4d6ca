# SPDX-License-Identifier: Apache-2.0
# The launcher, sourced by bin/hugealign with $package set: it runs a command of the tool, or a compiler.
# -B in front of the compiler's arguments leads it to the linker shims.  The arguments are scanned for what the command
# does; they stay as they were, but for a linker named by its path.  An order adds options in front.
# shellcheck shell=sh

fail() {
    printf 'hugealign: error: %s\n' "$2" >&2
    exit "$1"
}

# check_command COMMAND: exit with env(1)'s statuses if it cannot be run.  It does not take the arguments: passing a
# thousand of them to a function takes as long as starting a process.
check_command() {
    case $1 in
        */*)
            [ -e "$1" ] || fail 127 "$1: command not found"
            [ ! -d "$1" ] || fail 126 "$1: is a directory"
            [ -x "$1" ] || fail 126 "$1: not executable"
            ;;
        *) command -v -- "$1" >/dev/null || no_command "$1" ;;
    esac
}

# no_command WORD: say that there is none, and, unless it is a missing compiler, which command of ours is meant: one
# with a similar name, or $second.
no_command() {
    is_compiler "$1" || case ${0##*/}/$1 in
        hugealign/[!-]*)
            # shellcheck source=hugealign/sh/python.sh
            . "$package/sh/python.sh"
            # shellcheck disable=SC2154
            ! find_python "$package" || exec "$python" -I -S "$package/__main__.py" "$1" ${second:+"$second"}
            ;;
    esac
    fail 127 "$1: command not found"
}

# check_size NAME VALUE: exit with a message unless the value is empty or a number with a unit.
check_size() {
    case ${2#"${2%%[!0-9]*}"} in
        "$2") [ -z "$2" ] || fail 125 "$1: not a size (examples: 4096, 64K, 2M)" ;;
        '' | [KMGkmg] | [KMGkmg]B | [KMGkmg]iB) ;;
        *) fail 125 "$1: not a size (examples: 4096, 64K, 2M)" ;;
    esac
}

# usable_profile FILE: return 0 if it is an order file, with its first bytes in $head.  Looking at it costs a process,
# so that waits until something is compiled.
usable_profile() {
    [ -f "$1" ] && [ -r "$1" ] && { head=$(head -c 64 -- "$1"); } 2>/dev/null || head=
    case $head in
        '# hugealign.order/1' | '# hugealign.order/1
'*) return 0 ;;
    esac
    return 1
}

# find_compiler COMPILER [CACHE]: set $compiler to its path.
find_compiler() {
    compiler=$1
    case ${compiler##*/} in
        "$compiler")
            set -f
            IFS=:
            for directory in $PATH; do
                case ${2:+${directory%/}} in */ccache) continue ;; esac # ccache passes over links to itself
                compiler=${directory:-.}/$1
                [ ! -f "$compiler" ] || [ ! -x "$compiler" ] || break
            done
            unset IFS
            set +f
            ;;
    esac
}

# find_blocks COMPILER CACHE WORD...: set $blocks to clang's list of the blocks by which the order $profile divides
# functions, for that compiler and the target in its words, else to nothing.  hugealign/wrapper/block_lists.py makes the
# list, once.
find_blocks() {
    blocks=
    # A name in front of clang's is that of a target.
    case ${1##*/} in *clang-cl* | *clang-[!0-9+]* | ?*-clang*) return 0 ;; *clang*) ;; *) return 0 ;; esac
    [ -z "${CCC_OVERRIDE_OPTIONS-}" ] || return 0
    find_compiler "$1" "$2"
    shift 2
    previous='' target=''
    for word do
        case $previous$word in
            -target\ * | --target=* | -m32 | -mx32 | -m64) target="$target $previous$word" ;;
            -target) previous='-target ' && continue ;;
            # An assembler that may not know such sections, or code for another processor as well.
            -fno-integrated-as | -no-integrated-as | *.cu | *.hip | -x\ cuda | -x\ hip | -xcuda | -xhip | \
                --offload* | -fopenmp-targets* | --cuda-gpu-arch*) return 0 ;;
            # Files that can name another target.
            @* | --config*) return 0 ;;
            -x) previous='-x ' && continue ;;
        esac
        previous=
    done
    list=${XDG_CACHE_HOME-}
    case $list:${HOME-} in
        /*) ;;
        *:) # Python would look the home up, and put the list there
            printf 'hugealign: warning: compiled without blocks: HOME is not set; set XDG_CACHE_HOME\n' >&2
            return 0
            ;;
        *) list=$HOME/.cache ;;
    esac
    key=$(exec stat -L -c '%d.%i.%s.%.9Y' -- "$profile" "$compiler" 2>/dev/null) || return 0
    index=$list/hugealign/blocks
    for word in $key $target; do
        case $word in *[!A-Za-z0-9._=+-]* | */*) return 0 ;; esac
        index=$index-$word
    done
    list_in "$index" || {
        # shellcheck source=hugealign/sh/python.sh
        . "$package/sh/python.sh"
        # shellcheck disable=SC2154
        find_python "$package" || return 0
        # shellcheck disable=SC2086
        "$python" -I -S -c '
import sys
sys.path.insert(0, sys.argv[1])
from hugealign.wrapper.block_lists import main
sys.exit(main(sys.argv[2:]))' "${package%/*}" "$index" "$profile" "$compiler" $target </dev/null && list_in "$index" ||
            blocks=
    }
    [ -n "$blocks" ] || [ "${HUGEALIGN_DEBUG-}" != 1 ] ||
        printf 'hugealign: debug: compiled without blocks: there is no list of them that this compiler takes\n' >&2
}

# list_in INDEX: set $blocks to the list that it names, held, or to nothing if it names none; return 1 if one is gone.
list_in() {
    # Never use a file that other users have put there.
    { [ -O "$1" ] && read -r blocks <"$1"; } 2>/dev/null || return 1
    [ -z "$blocks" ] || { hold "$blocks" && blocks=$held; }
}

# hold FILE: set $held to a path of our own file by which it can be read until the compiler is done, whoever removes it,
# and $named to its name; return 1 if it is gone.
hold() {
    held=$1
    { command exec 9<"$1"; } 2>/dev/null || return 1
    if [ /proc/self/fd/9 -ef "$1" ]; then # /proc is mounted
        held=/proc/self/fd/9
    fi
    [ -O "$held" ] && [ -r "$held" ] && named=${1##*/}
}

# find_plugin COMPILER [CACHE]: set $plugin to the pass plugin built for exactly this compiler, else to nothing.
# `hugealign plugin build` leaves a list (hugealign/wrapper/plugin_list.py) of the compilers that its plugins are for, with
# the size and time of each of their files; ccache identifies a compiler the same way.  Looking at these costs one
# process.  Whether other users can write to the directory is checked when a plugin is built.
find_plugin() {
    plugin=
    list=${XDG_CACHE_HOME-}
    case $list in /*) ;; *) list=${HOME-}/.cache ;; esac
    list=$list/hugealign/lld-plugin/tools
    [ -O "$list" ] && [ -r "$list" ] || return 0 # never run what other users have put there
    case ${1##*/} in *clang-cl*) return 0 ;; esac # has no such option
    find_compiler "$@"
    while IFS='	' read -r built tool identity libraries; do
        [ "$compiler" -ef "$tool" ] || continue
        # shellcheck disable=SC2086
        state=$(IFS='	' && set -f && exec stat -L --printf '%s:%Y ' -- "$tool" $libraries 2>/dev/null) || state=
        if [ "$state" = "$identity " ] && [ ! -L "$built" ] && hold "$built"; then
            plugin=$held
        elif [ "${HUGEALIGN_DEBUG-}" = 1 ]; then
            printf 'hugealign: debug: the plugin for this compiler is out of date; run: hugealign plugin build\n' >&2
        fi
        return 0
    done <"$list"
}

# is_compiler WORD: return 0 if it has the name of a compiler; for a path, the last part counts.
is_compiler() {
    case ${1##*/} in
        -* | *=*) return 1 ;;
        cc | c++ | c[89]9 | tcc | *-cc | *-c++ | gcc | g++ | *-gcc | *-g++ | gcc-[0-9]* | g++-[0-9]* | *-gcc-[0-9]* | \
            *-g++-[0-9]* | clang | clang++ | *-clang | *-clang++ | clang-[0-9]* | clang++-[0-9]* | clang-cl | flang* | \
            gfortran | gfortran-[0-9]* | *-gfortran | icc | icpc | icx | icpx | ifort | ifx | nvcc | hipcc | gdc | ldc2 | \
            gccgo* | mpicc | mpicxx | mpic++ | mpif77 | mpif90 | mpifort) ;;
        *) return 1 ;;
    esac
}

# takes_b WORD: return 0 if its name says that it is gcc or clang, whose -B names a place for programs.
takes_b() {
    case ${1##*/} in
        *gcc* | *g++* | *clang* | *gfortran* | gdc* | mpi* | hipcc | icc | icpc | icx | icpx | ifort | ifx) ;;
        *) return 1 ;;
    esac
}

# stand_in WORD: set $stands to the compiler that it stands for: cc is a link to any.
stand_in() {
    stands=$1
    ! takes_b "$1" || return 0
    case ${1##*/} in cc | c++ | c[89]9 | *-cc | *-c++) ;; *) return 0 ;; esac
    find_compiler "$1" ccache
    set -- "$compiler"
    for stands in gcc clang g++ clang++; do # which takes no process
        find_compiler "$stands" ccache
        [ ! "$compiler" -ef "$1" ] || return 0
    done
    stands=$(exec readlink -f -- "$1") || stands=$1
}

# by_itself WORD: return 0 if it is a compiler that is its own linker, perhaps by another name; set $stands.
by_itself() {
    stand_in "$1"
    case ${stands##*/} in tcc | *-tcc | tcc-[0-9]* | *-tcc-[0-9]*) ;; *) return 1 ;; esac
}

# compiler_behind WORD...: return 0 if a compiler follows the first word, which is then a program in front of it.
compiler_behind() {
    previous=first
    for word do
        case $previous in
            first | -x | -o) ;; # -x c++
            *) ! is_compiler "$word" || return 0 ;;
        esac
        previous=$word
    done
    return 1
}

# before_shims DIRECTORY: note in $places that it is that of a -B of the user's own, and a linker there that comes before
# the shims: collect2 takes the first two names before all others, and behind a program in front the shims come last.
# Shims of another hugealign do no harm.
before_shims() {
    places=$places:$1
    [ ! -e "$1/../sh/shim.sh" ] || return 0
    for candidate in real-ld collect-ld ${front:+ld}; do
        [ ! -x "$1/$candidate" ] || first=$1/$candidate
    done
}

name=${0##*/}
case $name in
    hugealign-*gcc-ar | hugealign-*gcc-nm | hugealign-*gcc-ranlib)
        check_command "${name#hugealign-}"
        exec "${name#hugealign-}" "$@"
        ;;
    hugealign-?*) set -- "${name#hugealign-}" "$@" ;;
    'hugealign '?*) set -- "${name#hugealign }" "$@" ;; # configure scripts write "$CC" -v
    *)
        given=
        while :; do
            case ${1-} in
                --page-size | --profile) fail 125 "$1: write it with its value in one word: $1=..." ;;
                --page-size=*) export HUGEALIGN_PAGE_SIZE="${1#*=}" ;;
                --profile=/* | --profile=) export HUGEALIGN_PROFILE="${1#*=}" ;;
                --profile=*) export HUGEALIGN_PROFILE="$PWD/${1#*=}" ;; # build steps run in directories of their own
                *) break ;;
            esac
            given=${1%%=*}
            shift
        done
        case ${1-} in
            # <<< commands: written by make tables
            '' | -h | --help | -V | --version | help | build | plugin | path | verify | diff | explain | fix | order | \
                tune | map | profile | run | warm | stage | enable | disable | oci-hook | ps | top | measure | advise | \
                adapt | doctor | status | trace | simulate | draw-map | order-trace)
            # >>> commands
                # A build hands these on to its links; every other command has options of its own.
                case $given/${1-} in
                    /* | */build | */-* | */) ;;
                    *) fail 2 "$given: for a compiler or a build; the options of a command follow it: hugealign ${1-} ..." ;;
                esac
                # shellcheck source=hugealign/sh/python.sh
                . "$package/sh/python.sh"
                # shellcheck disable=SC2154
                find_python "$package" || fail 125 'no python3 of version 3.11 or newer found; install one, as python3.11 beside an older python3'
                # Python does not start where standard input is a directory (init_sys_streams in its pylifecycle.c).
                [ ! -d /dev/stdin ] || exec </dev/null
                # shellcheck source=hugealign/sh/given.sh
                . "$package/sh/given.sh"
                exec "$python" -I -S "$package/__main__.py" "$@"
                ;;
            # Programs of these names could be on PATH, but are not meant.
            undo) fail 2 'undo: not a command; fix, warm and adapt have --undo, and disable undoes enable' ;;
            install | uninstall) fail 2 "$1: not a command; the package manager does that, or make $1 in hugealign's source" ;;
            version) fail 2 'version: not a command; hugealign --version prints it' ;;
            -*) # build systems drop the second word of "hugealign gcc"
                # shellcheck source=hugealign/sh/mistakes.sh
                . "$package/sh/mistakes.sh"
                [ "$#/$1" != 1/-v ] || [ ! -t 2 ] || echo 'hugealign: -v is for cc; hugealign --version prints ours' >&2
                set -- cc "$@"
                ;;
        esac
        case ${2-}/${3-} in
            enable/ | disable/ | ps/ | advise/ | adapt/ | status/ | enable/--* | disable/--* | ps/--* | advise/--* | adapt/--*)
                # What a unit is called may also be a program, as mariadb is.
                is_compiler "$1" || [ -e "$2" ] || ! command -v -- "$1" >/dev/null ||
                    fail 2 "$1: a command comes first: hugealign $2 $1${3:+ ...}"
                ;;
        esac
        ;;
esac
second=${2-}

case ${HUGEALIGN_DISABLE-} in
    '' | 0) ;;
    1)
        check_command "$1"
        exec "$@"
        ;;
    *) fail 125 'HUGEALIGN_DISABLE: not 0 or 1' ;;
esac
# <<< variables: written by make tables
check_size HUGEALIGN_PAGE_SIZE "${HUGEALIGN_PAGE_SIZE-}"
check_size HUGEALIGN_MIN_TEXT "${HUGEALIGN_MIN_TEXT-}"
case ${HUGEALIGN_ORDER_OBJECTS-} in '' | 0 | 1) ;; *) fail 125 'HUGEALIGN_ORDER_OBJECTS: not 0 or 1' ;; esac
case ${HUGEALIGN_PLUGIN-} in '' | 0 | 1) ;; *) fail 125 'HUGEALIGN_PLUGIN: not 0 or 1' ;; esac
case ${HUGEALIGN_CHECK-} in '' | off | warn | error) ;; *) fail 125 'HUGEALIGN_CHECK: not one of off, warn, error' ;; esac
case ${HUGEALIGN_DEBUG-} in '' | 0 | 1) ;; *) fail 125 'HUGEALIGN_DEBUG: not 0 or 1' ;; esac
# >>> variables

# clang-cl links for Windows.
case ${1##*/} in
    clang-cl)
        [ "${HUGEALIGN_DEBUG-}" != 1 ] || printf 'hugealign: debug: left alone: clang-cl links for Windows\n' >&2
        check_command "$1"
        exec "$@"
        ;;
esac

# Look for words that mean that nothing is linked: then the compiler runs unchanged, and a compiler cache
# sees the very same command.  If one is the argument of another option, the link is merely done without us; but
# -Xlinker -E is common, and means a link.
profile=${HUGEALIGN_PROFILE-}
does='link'
front= # whether the first word is a program in front of the compiler: its own options say nothing
is_compiler "$1" || case ${1##*/} in
    make | gmake | ninja | samu | cmake | ctest | meson | scons | bazel | bazelisk | buck2 | b2 | bjam | waf | xmake | tup | \
        autoreconf | sh | bash | dash | zsh | dpkg-buildpackage | debuild | rpmbuild | makepkg | abuild | pip | pip3 | npm | \
        go | tinygo | ghc | ghc-[0-9]* | stack | cabal | ocamlc | ocamlopt | ocamlfind | dune | opam | nim | nimble | valac | \
        valac-[0-9]* | cobc | dmd | rdmd | dub | gnatmake | gnatmake-[0-9]* | gnatlink | gnatlink-[0-9]* | gprbuild | fpc | \
        swift | swiftc | crystal | mlton | ponyc | odin | chicken-csc | gsc)
        fail 125 "${1##*/}: not a compiler; did you mean: hugealign build -- ${1##*/} ..." ;;
    # They run a linker of their own, unless they are given another.
    cargo) fail 125 'cargo: not a compiler; did you mean: RUSTFLAGS=-Clinker=hugealign-cc cargo ...' ;;
    rustc) fail 125 'rustc: not a compiler; did you mean: rustc -Clinker=hugealign-cc ...' ;;
    configure) fail 125 "configure: not a compiler; did you mean: $1 CC=hugealign-gcc ..." ;;
    ld | ld.bfd | ld.gold | gold | ld.lld | lld | ld.mold | mold | ld.wild | wild)
        fail 125 "${1##*/}: not a compiler; link with one: hugealign gcc ..." ;;
    zig)
        case ${2-} in
            cc | c++) front=$1 ;;
            *) fail 125 'zig: not a compiler; zig links by itself, and hugealign fix makes windows in what it has linked' ;;
        esac
        ;;
    sudo | doas | su) fail 125 "${1##*/}: it may empty the environment; put hugealign behind it: ${1##*/} hugealign gcc ..." ;;
    hugealign*) front=$1 ;;
    *) ! compiler_behind "$@" || front=$1 ;;
esac
linker= # clang's option for a linker of the user's own: the last --ld-path, else the last -fuse-ld
chosen=
first= # a linker that comes before the shims
elsewhere=${CCC_OVERRIDE_OPTIONS-} # where clang may get such an option from that is not among the words
moved= # an option that tells clang where it lies
places= # directories of -B
output=a.out
itself= # a compiler that is its own linker
previous=${front:+front }
for word do
    case $previous$word in
        'front '*)
            case ${previous#front } in
                '' | -x | -o) previous="front $word" ;; # as in compiler_behind
                *)
                    is_compiler "$word" || { previous="front $word" && continue; }
                    case ${previous#front } in zig | */zig | ziglang) itself=zig ;; *) ! by_itself "$word" || itself=$word ;; esac
                    previous=
                    ;;
            esac
            continue
            ;;
        --) break ;;
        # clang warns about options that mean nothing to an assembler
        [!-]*.s | [!-]*.asm | -xassembler | --language=assembler) profile= ;;
        @*) elsewhere=$word ;;
        [!-]*) continue ;; # an input
        -B?*) before_shims "${word#-B}" ;;
        -B) previous=$word && continue ;;
        -o?*) output=${previous#-o}${word#-o} ;;
        -no-canonical-prefixes | -ccc-*) moved=$word ;;
        -Xlinker | -o | -x) previous=$word && continue ;;
        -[cSEMfpd\#-]*)
            case $previous$word in
                -c | -S)
                    does=compile
                    [ -n "$profile" ] || break
                    ;;
                --ld-path=*) chosen=yes linker=$word ;;
                -fuse-ld=*) [ -n "$chosen" ] || linker=$word ;;
                --config*) elsewhere=$word ;;
                -fembed-bitcode | -fembed-bitcode=all | -fembed-bitcode=bitcode) profile= ;; # clang refuses sections with it
                -E | -M | -MM | -fsyntax-only | -cc1* | -'###' | -print-* | --print-* | --version | --help | \
                    -dumpmachine | -dumpversion | -dumpfullversion | -dumpspecs) # -dumpdir and -dumpbase name files
                    does=nothing
                    break
                    ;;
            esac
            ;;
    esac
    previous=
done

case $does$profile in
    compile | nothing*)
        check_command "$1"
        exec "$@"
        ;;
esac
[ -n "$front" ] || ! by_itself "$1" || itself=${1##*/}
[ -z "$itself" ] || profile=

# With a profile's order, the hot functions get sections of their own, which linkers can order: from the pass plugin if
# one was built for this compiler; else all functions get them, by an option that comes first, so a later
# -fno-function-sections counts.  The plugin checks the order itself, and its warning about a bad one is not an error,
# whatever -Werror says.
sections=
plugin=
blocks=
named= # the name of the file that one of these is: a cache of compilations knows it by an option that clang ignores
usable=
receiver='' through='' # the compiler that receives the order, and the cache in front of it
case ${1##*/}/${CCACHE_DISABLE:+x}:${CCACHE_EXTRAFILES-}: in
    ccache/*) receiver=${2-} through=ccache ;;
    sccache/* | distcc/* | icecc/* | buildcache/*) ;; # cannot receive it, or compile elsewhere
    */x*":$profile:"* | */:*) receiver=$1 ;; # else ccache runs us, and knows nothing about the order
esac
if [ -n "$profile" ] && usable_profile "$profile"; then
    usable=yes
    case ${receiver:+$head} in
        *'
# blocks: '*) find_blocks "$receiver" "$through" "$@" ;;
    esac
fi
aligned= # a power of two
if [ -n "$blocks" ]; then
    sections=-ffunction-sections # for functions that are not divided
    # Clang aligns functions to 16 bytes, and a hot one loses half of that.  The option, which LLVM 14 refuses if it is
    # given twice, keeps alignments that the source or -falign-functions requests, but would enlarge what -Os packs.
    case " $* " in *align-all-functions* | *' -Os '* | *' -Oz '* | *' @'* | *' --config'*) ;; *) aligned=3 ;; esac
elif [ -n "$profile" ]; then
    if [ -n "$receiver" ] && [ "${HUGEALIGN_PLUGIN-}" != 0 ] && [ -f "$profile" ] && [ -r "$profile" ]; then
        # In CCACHE_EXTRAFILES a colon ends a name.
        case $through$profile in ccache*:*) ;; *) find_plugin "$receiver" "$through" ;; esac
    fi
    if [ -n "$plugin" ]; then
        :
    elif [ -n "$usable" ]; then
        sections=-ffunction-sections
    elif [ "$does" = compile ]; then # for a link, the shim says so
        case $profile in *[[:cntrl:]]*) profile=HUGEALIGN_PROFILE ;; esac
        what='not an order file'
        [ -e "${HUGEALIGN_PROFILE-}" ] || what='no such file'
        printf 'hugealign: warning: %s: %s: compiled without -ffunction-sections; make one: %s\n' "$profile" "$what" \
            'hugealign order PROFILE -b PROGRAM -o FILE' >&2
    fi
fi

[ "$does$sections$plugin" != compile ] || { check_command "$1" && exec "$@"; }

# alone WORD...: become the command, whose link does not use a shim, as $without says.  If that may be large, look at what
# it makes, and say so; hugealign/link/alone.py fails the link if HUGEALIGN_CHECK requests that.
without=
alone() {
    [ "${HUGEALIGN_DEBUG-}" != 1 ] || printf 'hugealign: debug: left alone: %s\n' "$without" >&2
    check_command "$1"
    case ${HUGEALIGN_CHECK-} in
        off) exec "$@" ;;
        error) ;;
        *)
            total=0
            for size in $(exec stat -L -c %s -- "$@" 2>/dev/null); do
                total=$((total + size))
            done
            [ "$total" -ge 262144 ] || exec "$@"
            ;;
    esac
    # shellcheck source=hugealign/sh/python.sh
    . "$package/sh/python.sh"
    # shellcheck disable=SC2154
    find_python "$package" || {
        [ "${HUGEALIGN_CHECK-}" != error ] || fail 125 'HUGEALIGN_CHECK=error needs a python3 of version 3.11 or newer; install one'
        printf 'hugealign: warning: %s\n' "$without" >&2
        exec "$@"
    }
    before=$(exec stat -L -c '%d %i %s %.9Y' -- "$output" 2>/dev/null)
    "$@"
    status=$?
    # If a signal killed it, the same signal kills us.  There are 64.
    [ "$status" -le 128 ] || [ "$status" -gt 192 ] || kill -"$((status - 128))" $$
    [ "$status" -eq 0 ] || exit "$status"
    [ "$before" != "$(exec stat -L -c '%d %i %s %.9Y' -- "$output" 2>/dev/null)" ] || exit 0
    exec "$python" -I -S -c '
import sys
sys.path.append(sys.argv[1])
from hugealign.link.alone import main
sys.exit(main(*sys.argv[2:]))' "${package%/*}" "$output" "$without" </dev/null
}

# unusable NAME WHY REMEDY: note why the link uses no shim, and is the plain one.
unusable() {
    [ -n "$without" ] || without="$1: linked without hugealign, because $2; $3"
}

if [ -n "$itself" ]; then
    unusable "${itself##*/}" 'it is its own linker' 'use gcc or clang, or fix what it has linked: hugealign fix FILE'
    alone "$@"
fi

# gcc gives its children the places that it searches in a list with colons; clang searches by itself.
case $does$package/${1##*/} in
    link*:*/*clang*) ;;
    link*:*) unusable "${1##*/}" "of the colon in $package" 'install it elsewhere' ;;
esac
[ "$does" != link ] || [ -x "$package/libexec/ld" ] ||
    unusable "${1##*/}" "$package/libexec/ld cannot be executed" 'reinstall hugealign'

# nearby NAME COMPILER: return 0 if that driver certainly finds a linker of that name: in a -B, on PATH or beside clang.
nearby() {
    find_compiler "$2"
    set -f
    IFS=:
    # shellcheck disable=SC2086
    set -- "$1" $PATH $places
    unset IFS
    set +f
    name=$1
    shift
    for directory do
        [ -z "$directory" ] || [ ! -x "$directory/$name" ] || return 0
    done
    [ -z "$moved" ] || return 1
    for directory in /usr/lib/llvm*/bin; do
        [ ! -x "$directory/$name" ] || [ ! "$compiler" -ef "$directory/clang" ] || return 0
    done
    return 1
}

# path_of NAME WORD...: print what the driver in that command runs as the program of that name.
path_of() {
    program=$1
    shift
    behind=
    for word do
        shift
        [ "$word" != -- ] || behind=yes # what follows that is an input
        [ -n "$behind" ] || set -- "$@" "$word"
    done
    "$@" "-print-prog-name=$program" 2>/dev/null </dev/null
}

# The driver says that there is no such linker; a shim in its place would not be a linker either.
name=${linker#--ld-path=}
[ "$name" != "$linker" ] || name=ld.${linker#*=}
case $does/$name in
    */ld. | */ld.ld | */*/*) ;;
    link/*)
        nearby "$name" "$1" || case $(path_of "$name" "$@") in
            */*) ;;
            *)
                [ "${HUGEALIGN_DEBUG-}" != 1 ] || printf 'hugealign: debug: left alone: there is no %s\n' "$name" >&2
                check_command "$1"
                exec "$@"
                ;;
        esac
        ;;
esac

# clang looks nowhere else for a linker given by its path, nor for one by a name that no shim has: there a shim takes the
# linker's place, and looks for it as clang would have.
shim='' option=${linker%%=*}
case ${1##*/}/$linker in
    */ | *gcc*/* | g++*/* | *-g++*/* | *gfortran*/*) ;; # which know no such option, or know the shims by their names
    *=*/*)
        [ ! -x "${linker#*=}" ] || [ -d "${linker#*=}" ] || {
            shim=$package/libexec/${linker##*/}
            [ -e "$shim" ] || shim=$package/libexec/ld
            export _HUGEALIGN_LINKER="${linker#*=}"
        }
        ;;
    */-fuse-ld= | */-fuse-ld=ld) ;;
    *)
        [ -e "$package/libexec/$name" ] || {
            export _HUGEALIGN_NAME="$name"
            # clang has a warning about paths behind -fuse-ld
            shim=$package/libexec/ld
            case "$1 ${2-}" in *clang*) option=--ld-path ;; esac
        }
        ;;
esac
if [ -n "$shim" ]; then
    case " $* " in
        *' -- '*) # what follows that is an input
            for word do
                shift
                [ "$word" != "$linker" ] || word=$option=$shim
                set -- "$@" "$word"
            done
            ;;
        *) set -- "$@" "$option=$shim" ;;
    esac
fi

# A compiler cache or another program in front of the compiler would take our option for one of its own.  For the
# linker, COMPILER_PATH does the same as -B, unless the user's own -B leads to one.
check_command "$1"
cache=
case ${1##*/} in
    ccache | sccache | distcc | icecc | buildcache) front=$1 cache=$1 ;;
    # They have another -B, and gcc or clang link for them; LLVM's flang has none, nor, before 23, sections of functions.
    ldc2 | nvcc | flang*) front=$1 ;;
esac
shims=
if [ -z "$front" ]; then
    [ "$does" != link ] || shims=-B$package/libexec/
else
    [ "$does" != link ] || export COMPILER_PATH="$package/libexec${COMPILER_PATH:+:$COMPILER_PATH}"
    [ "$does$first" = "$does" ] || [ "$does" != link ] || [ -n "$cache" ] ||
        unusable "${1##*/}" "$first comes first" "put hugealign behind it: ${1##*/} hugealign ..."
    [ -z "$without" ] || alone "$@"
    [ -n "$cache" ] || exec "$@"
    case ${2-} in '' | -* | *=*) exec "$@" ;; esac
    # Behind another program our option would be that one's: ccache env gcc, distcc ccache gcc.
    is_compiler "$2" || ! compiler_behind "$@" || exec "$@"
    case ${2##*/} in ldc2 | nvcc | flang* | clang-cl) exec "$@" ;; esac # they have no such options
    if [ "$does" = link ] && by_itself "$2"; then
        unusable "${2##*/}" 'it is its own linker' 'use gcc or clang, or fix what it has linked: hugealign fix FILE'
        alone "$@"
    fi
    if [ -n "$plugin" ]; then
        # ccache hashes the order file if this variable names it; the variable would hide its configuration's setting.
        extra=${CCACHE_EXTRAFILES-$("$cache" -k extra_files_to_hash 2>/dev/null)}
        export CCACHE_EXTRAFILES="${extra:+$extra:}$profile"
    fi
    shift
    [ "$does" != link ] || shims=-B$package/libexec/
fi
compiler=$1
shift
case ${shims:+$does}/${compiler##*/}/${first##*/} in
    link/*clang*/*) ;; # which looks for neither
    link/*/real-ld | link/*/collect-ld) unusable "${compiler##*/}" "$first comes first" 'call that linker ld' ;;
esac
# configured COMPILER: return 0 if a configuration file that clang reads by itself may choose a linker.
configured() {
    set -- "$(exec readlink -f -- "$1")"
    case $1 in *clang*) ;; *) return 1 ;; esac
    for file in "${1%/*}"/*.cfg /etc/clang*/*.cfg "${HOME-}"/.config/clang*/*.cfg "${HOME-}"/.llvm/*.cfg; do
        [ ! -e "$file" ] || ! grep -qse fuse-ld -e ld-path -e -B -e '@.*/' -e --config -- "$file" || return 0
    done
    return 1
}

# chooses_linker COMPILER: return 0 if what it runs as the linker may not be seen from its words: it is a script, or
# reads files.
chooses_linker() {
    find_compiler "$1"
    set -- "$1" "$compiler"
    compiler=$1
    script=
    case $2 in
        /usr/bin/* | /bin/*) is_compiler "$1" ;; # a system's own, too long for a shell to read a line of
        *) false ;;
    esac || { read -r line <"$2" && case $line in '#!'*) script=yes && return 0 ;; esac; }
    case $elsewhere/${1##*/} in
        */*gcc* | */g++* | */*-g++*) return 1 ;;
        /*) configured "$2" ;;
        @*) grep -qse fuse-ld -e ld-path -- "${elsewhere#@}" || configured "$2" ;;
    esac
} 2>/dev/null

# linker_of COMPILER WORD...: set $answer to the linker that this command would run, by its own account.
linker_of() {
    probed=$1
    shift
    answer=$("$probed" '-###' "$@" 2>&1 </dev/null | sed -n 's/^ //p' | tail -n 1)
    case $answer in
        \"*) answer=${answer#?} answer=${answer%%\"*} ;; # clang
        */collect2\ *)
            case $answer in
                *' -fuse-ld='*) answer=.${answer##* -fuse-ld=} answer=${answer%% *} ;;
                *) answer= ;;
            esac
            answer=$(path_of "ld$answer" "$probed" "$@")
            ;;
        *) answer= ;;
    esac
}

# A script in the place of the compiler, a file or a variable may name a linker, and then no shim runs.  Where there
# is one, see what would be run; a script that is given nothing to link may be something else than a compiler.
sure=
if [ -n "$shims" ] && [ -z "$shim" ] && chooses_linker "$compiler"; then
    answer='' probed=''
    case "$* " in
        *'.o '* | *'.a '* | *'.c '* | *'.cc '* | *'.cpp '* | *'.cxx '* | *'.C '* | *@*)
            linker_of "$compiler" "$shims" "$@"
            ;;
    esac
    case $answer in
        '')
            [ -z "$script" ] || [ -z "$probed" ] || {
                shims=
                unusable "${compiler##*/}" 'it does not say which linker it runs' \
                    'put hugealign in front of the compiler that it runs, unless that is its own linker'
            }
            ;;
        "$package"/libexec/*) sure=yes ;;
        */zig)
            shims=
            unusable "${compiler##*/}" 'it runs zig, which is its own linker' 'use gcc or clang, or fix what it has linked: hugealign fix FILE'
            ;;
        *)
            sure=yes
            other=$answer path=--ld-path=$package/libexec/ld
            for word do
                shift
                [ "$word" != -- ] || { set -- "$@" ${path:+"$path"} && path=; } # what follows that is an input
                set -- "$@" "$word"
            done
            set -- "$@" ${path:+"$path"}
            export _HUGEALIGN_LINKER="$other"
            linker_of "$compiler" "$shims" "$@"
            case $answer in
                "$package"/libexec/*) ;;
                *)
                    unset _HUGEALIGN_LINKER
                    for word do
                        shift
                        [ "$word" = "--ld-path=$package/libexec/ld" ] || set -- "$@" "$word"
                    done
                    unusable "${compiler##*/}" "it runs $other" 'put hugealign in front of the compiler that it runs'
                    ;;
            esac
            ;;
    esac
fi
# Another compiler may have another -B, and other options.
[ -n "$sure" ] || [ -z "$shims" ] || [ -n "$cache" ] || takes_b "$stands" || shims=
if [ "$does/$shims" = link/ ]; then
    export COMPILER_PATH="$package/libexec${COMPILER_PATH:+:$COMPILER_PATH}"
    sections='' blocks='' plugin='' named=''
fi
[ -z "$named" ] || set -- "-frandom-seed=$named" --end-no-unused-arguments "$@"
[ -z "$plugin" ] || set -- --start-no-unused-arguments "-fpass-plugin=$plugin" -Wno-error=backend-plugin "$@"
[ -z "$blocks" ] || set -- "$sections" --start-no-unused-arguments "-fbasic-block-sections=list=$blocks" \
    ${aligned:+-mllvm "-align-all-functions=$aligned"} "$@"
# For link-time optimisation.
[ -z "$blocks" ] || [ -z "$shims" ] || export _HUGEALIGN_BLOCKS="$blocks" _HUGEALIGN_ALIGNED="$aligned"
[ -z "$blocks" ] || sections=
set -- ${cache:+"$cache"} "$compiler" ${shims:+"$shims"} ${sections:+"$sections"} "$@"
[ -z "$without" ] || alone "$@"
exec "$@"
