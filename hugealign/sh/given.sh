# SPDX-License-Identifier: Apache-2.0
# Sourced by launch.sh in front of $python: tell it in variables what we were given and it cannot see
# (hugealign/environment.py): ignored signals, two of which Python ignores anyway; the variables that dash drops, since
# no shell can name them (`a.b`, functions of bash), or that it sets itself; and the loader's, which Python must not get.
# shellcheck shell=sh
unset _HUGEALIGN_ENVIRON _HUGEALIGN_IGNORED
# Where /proc is that of another PID namespace, $$ is another process there.
read -r process _ 2>/dev/null </proc/self/stat || process=none
while read -r word mask; do
    case $word in SigIgn:) export _HUGEALIGN_IGNORED="$mask" && break ;; esac
done 2>/dev/null <"/proc/$process/status"
case ${1-} in
    run | build | ps | advise | trace) ;; # they start programs
    *) [ -n "${LD_AUDIT-}${LD_DEBUG-}${LD_LIBRARY_PATH-}${LD_PRELOAD-}${LD_PROFILE-}" ] || return 0 ;;
esac
# Where no process can be started, sh ends, and also where the variable takes the last room that arguments have: Python
# still takes our place.
# shellcheck disable=SC2154
trap 'trap - EXIT; unset _HUGEALIGN_ENVIRON; exec "$python" -I -S "$package/__main__.py" "$@"' EXIT
# With the libraries of another program, Python may not even start, or start with its messages.
loaders='LD_AUDIT|LD_DEBUG|LD_LIBRARY_PATH|LD_PRELOAD|LD_PROFILE'
shells='IFS|LINENO|OLDPWD|OPTIND|PPID|PS1|PS2|PS4|PWD|RANDOM|SHLVL|_'
{
    [ -r "/proc/$process/environ" ] && given=$(
        unset LD_AUDIT LD_DEBUG LD_LIBRARY_PATH LD_PRELOAD LD_PROFILE
        PATH=/usr/bin:/bin:$PATH
        LC_ALL=C grep -zE "^([^=]*[^A-Za-z0-9_=][^=]*|[0-9][^=]*|$loaders|$shells)=" <"/proc/$process/environ" | base64
    ) && export _HUGEALIGN_ENVIRON="$loaders|$shells:$given" &&
        unset LD_AUDIT LD_DEBUG LD_LIBRARY_PATH LD_PRELOAD LD_PROFILE
} 2>/dev/null
