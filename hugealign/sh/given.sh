# Sourced by launch.sh in front of $python: tell it in variables what we were given and it cannot see
# (hugealign/environment.py): ignored signals, two of which Python ignores anyway; and the variables that dash drops,
# since no shell can name them (`a.b`, functions of bash), or that it sets itself.
# shellcheck shell=sh
unset _HUGEALIGN_ENVIRON _HUGEALIGN_IGNORED
# Where /proc is that of another PID namespace, $$ is another process there.
read -r process _ 2>/dev/null </proc/self/stat || process=none
while read -r word mask; do
    case $word in SigIgn:) export _HUGEALIGN_IGNORED="$mask" && break ;; esac
done 2>/dev/null <"/proc/$process/status"
# Where no process can be started, sh ends, and where the variable takes the last room that arguments have, too: Python
# still takes our place.
# shellcheck disable=SC2154
trap 'trap - EXIT; unset _HUGEALIGN_ENVIRON; exec "$python" -I -S "$package/__main__.py" "$@"' EXIT
shells='IFS|LINENO|OLDPWD|OPTIND|PPID|PS1|PS2|PS4|PWD|RANDOM|SHLVL|_'
{
    [ -r "/proc/$process/environ" ] && given=$(
        PATH=/usr/bin:/bin:$PATH
        LC_ALL=C grep -zE "^([^=]*[^A-Za-z0-9_=][^=]*|[0-9][^=]*|$shells)=" <"/proc/$process/environ" | base64
    ) && export _HUGEALIGN_ENVIRON="$shells:$given"
} 2>/dev/null
