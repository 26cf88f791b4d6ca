# Sourced by launch.sh before it runs $python: tell it in variables what we were given, and it could not see
# (hugealign/environment.py): the environment, of which dash drops `a.b` and functions of bash, and adds PWD and others;
# and the signals that we ignore, two of which Python ignores anyway.
# shellcheck shell=sh
unset _HUGEALIGN_ENVIRON _HUGEALIGN_IGNORED
while read -r word mask; do
    case $word in SigIgn:) export _HUGEALIGN_IGNORED="$mask" && break ;; esac
done 2>/dev/null <"/proc/$$/status"
# Where no process can be started, sh ends: Python still takes our place.
# shellcheck disable=SC2154
trap 'trap - EXIT; exec "$python" -I -S "$package/__main__.py" "$@"' EXIT
{ environ=$(exec base64 <"/proc/$$/environ"); } 2>/dev/null
trap - EXIT
# The kernel takes no longer string (MAX_ARG_STRLEN, execve(2)).
[ -z "$environ" ] || [ ${#environ} -gt 131000 ] || export _HUGEALIGN_ENVIRON="$environ"
