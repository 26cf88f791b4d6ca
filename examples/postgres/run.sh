#!/bin/sh
# Builds Debian's PostgreSQL 15 plain, with CC="hugealign gcc", and in the order of a profile, and proves the difference.
# This part finds out what the machine has, installs what is missing and gets the sources; postgres.py does the rest.
#
# Root is used for missing Debian packages only; everything else runs as an ordinary user.
# Every finished step leaves a stamp file, so a second run continues where the first one stopped.
# Exit status: 0 all promises kept, 1 one is broken, 2 usage, 3 something on this machine is missing.
set -eu

usage() {
    cat <<'USAGE'
usage: run.sh [--build-dir DIR] [--clean] [--no-check] [--no-stale] [--rounds N]

  --build-dir DIR  where everything is built (default: build/postgres in the repository)
  --clean          begin with an empty build directory instead of resuming
  --no-check       leave out PostgreSQL's regression suite
  --no-stale       leave out the profiles of older versions
  --rounds N       how often pgbench runs on each server (default: 10)
USAGE
}

usage_error() {
    printf 'run.sh: %s\n' "$1" >&2
    usage >&2
    exit 2
}

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
build=
clean=no
rounds=10
options= # postgres.py's
while [ $# -gt 0 ]; do
    case $1 in
    --build-dir) [ $# -ge 2 ] || usage_error '--build-dir needs a directory'; build=$2; shift ;;
    --build-dir=*) build=${1#*=} ;;
    --clean) clean=yes ;;
    --no-check | --no-stale) options="$options $1" ;;
    --rounds) [ $# -ge 2 ] || usage_error '--rounds needs a number'; rounds=$2; shift ;;
    --rounds=*) rounds=${1#*=} ;;
    -h | --help) usage; exit 0 ;;
    *) usage_error "unknown argument: $1" ;;
    esac
    shift
done
case $rounds in
'' | *[!0-9]* | 0* | 1 | ?????*) usage_error "--rounds: not a number from 2 to 9999: $rounds" ;;
esac

# ---- words to the reader -----------------------------------------------------------------------

began=$(date +%s)

say() {
    set -- "$(($(date +%s) - began))" "$*"
    printf '[%02d:%02d] %s\n' $(($1 / 60)) $(($1 % 60)) "$2"
}

die() { # STATUS WORDS: says what is wrong and ends
    printf 'run.sh: %s\n' "$2" >&2
    exit "$1"
}

# ---- who runs what -----------------------------------------------------------------------------

# initdb and the server refuse to run as root, and so does the regression suite.
if [ "$(id -u)" -eq 0 ]; then
    user=${SUDO_USER:-nobody}
    if [ "$user" = root ]; then user=nobody; fi
    id "$user" >/dev/null 2>&1 || die 3 "no unprivileged user '$user' on this machine"
else
    user=$(id -un)
fi
group=$(id -g "$user")

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        die 3 "needs root for: $* (run this script as root, or install sudo)"
    fi
}

# The user's own PG* variables would reach the servers and clients; an own HOME and locale make runs comparable.
unset PGHOST PGPORT PGUSER PGDATABASE PGDATA PGOPTIONS PGSERVICE PGPASSFILE MAKEFLAGS CDPATH
as_user() {
    if [ "$(id -u)" -eq 0 ]; then
        set -- setpriv --reuid "$user" --regid "$group" --clear-groups "$@"
    fi
    HOME=${home:-/} LC_ALL=C PATH=$path "$@"
}

in_dir() { # DIR COMMAND...: the command, as the ordinary user, in that directory
    # shellcheck disable=SC2016 # expanded by the inner shell
    as_user sh -c 'cd "$1" && shift && exec "$@"' sh "$@"
}

# ---- where -------------------------------------------------------------------------------------

path=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
home=
reachable() { # DIR: can the ordinary user get there? (the nearest existing parent counts)
    set -- "$1"
    while [ ! -d "$1" ]; do set -- "$(dirname -- "$1")"; done
    as_user test -x "$1"
}
if [ -z "$build" ]; then
    build=$root/build/postgres
    if ! reachable "$build"; then
        build=/var/tmp/hugealign-postgres
        say "user '$user' cannot reach $root: building in $build"
    fi
fi
case $build in /*) ;; *) build=$PWD/$build ;; esac
case $build in *[!A-Za-z0-9/._+-]*) die 2 "the build directory must not contain spaces or special characters: $build" ;; esac
reachable "$build" || die 3 "user '$user' cannot reach $build: choose another --build-dir"
if [ -e "$build" ] && [ ! -e "$build/stamps" ] && [ -n "$(ls -A "$build")" ]; then
    die 2 "$build is not empty and not from an earlier run: choose another --build-dir"
fi

stamps=$build/stamps
logs=$build/logs
home=$build/home
source=$build/source

if [ $clean = yes ]; then
    for running in "$build"/data/*/postmaster.pid; do # left by a run that was killed
        if [ -e "$running" ]; then
            variant=$(basename "$(dirname "$running")")
            as_user "$build/install/postgres-$variant/bin/pg_ctl" -D "$build/data/$variant" -m immediate -w stop >/dev/null || :
        fi
    done
    say "removing $build"
    rm -rf "$build"
fi
mkdir -p "$stamps" "$logs"
# What the ordinary user writes into; the directory itself, stamps and logs stay ours.
for name in apt source trees install data home results; do
    if [ ! -d "$build/$name" ]; then
        mkdir "$build/$name"
        if [ "$(id -u)" -eq 0 ]; then chown "$user:$group" "$build/$name"; fi
    fi
done
as_user test -w "$build/source" ||
    die 3 "$build belongs to another user's run: use --clean or another --build-dir"
cd "$build" # where we were called from, the ordinary user may not be allowed to be

# step NAME WORDS COMMAND...: runs the command once; its output goes to a log, its seconds into the stamp.
step() {
    name=$1 words=$2
    shift 2
    if [ -e "$stamps/$name" ]; then
        say "$words: done before ($(cat "$stamps/$name") s)"
        return
    fi
    say "$words ..."
    start=$(date +%s)
    if ! "$@" >"$logs/$name.log" 2>&1; then
        tail -n 25 "$logs/$name.log" >&2
        die 1 "$words failed; the whole log: $logs/$name.log"
    fi
    echo $(($(date +%s) - start)) >"$stamps/$name"
    say "$words: $(cat "$stamps/$name") s"
}

# ---- 1. what the build needs -------------------------------------------------------------------

[ -r /etc/os-release ] || die 3 'no /etc/os-release: this example is for Debian 12'
# shellcheck source=/dev/null
codename=$(. /etc/os-release && echo "${ID:-}/${VERSION_CODENAME:-}")
[ "$codename" = debian/bookworm ] || die 3 "this example is for Debian 12 (debian/bookworm); this machine says $codename"
codename=bookworm

missing=
for package in gcc libc6-dev make bison flex perl libreadline-dev zlib1g-dev dpkg-dev linux-perf qemu-user; do
    case $(dpkg-query -W -f '${db:Status-Abbrev}' $package 2>/dev/null) in
    ii*) ;;
    *) missing="$missing $package" ;;
    esac
done
as_user python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || missing="$missing python3"

install_packages() { # another apt may hold a lock for a moment, also the one on the lists
    for _ in 1 2 3; do
        as_root apt-get -o DPkg::Lock::Timeout=300 update || :
        # shellcheck disable=SC2086 # a list of words
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
            install -y --no-install-recommends $missing && return
        sleep 10
    done
    return 1
}
if [ -n "$missing" ]; then
    say "installing$missing ..."
    install_packages >"$logs/packages.log" 2>&1 ||
        die 3 "cannot install$missing: $(grep '^E:' "$logs/packages.log" | tail -n 1) (log: $logs/packages.log)"
fi

# The wrapper itself: from this checkout, or from a copy where the ordinary user cannot read the checkout.
tool=$root
if ! as_user test -r "$root/bin/hugealign"; then
    tool=$build/tool
    say "user '$user' cannot read $root: using a copy in $tool"
    rm -rf "$tool"
    mkdir "$tool"
    cp -R "$root/bin" "$root/hugealign" "$root/ld-scripts" "$tool/"
    chmod -R go=u,go-w "$tool"
fi
path=$tool/bin:$path
as_user hugealign gcc --version >"$logs/hugealign.log" 2>&1 ||
    die 3 "the wrapper does not run: $(tail -n 1 "$logs/hugealign.log")"

# ---- 2. the source -----------------------------------------------------------------------------

# The machine's own Debian entries, both forms (deb822 and one-line), as deb-src entries of the main component.
# Vendors that use Debian's suite names are told apart by the signed Origin field after the first download.
# shellcheck disable=SC2016 # Perl's variables
source_entries='
    use strict; use warnings;
    my ($codename, $before, @files) = @ARGV;
    my (%seen, @entries);
    for my $file (@files) {
        open my $in, "<", $file or next;
        my $text = join "", grep { !/^\s*#/ } <$in>;
        if ($file =~ /\.sources$/) {
            for my $stanza (split /\n(?:[ \t]*\n)+/, $text) {
                my %field;
                $field{lc $1} = $2 while $stanza =~ /^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t].*)*)/mg;
                next if lc($field{enabled} // "yes") =~ /^(no|false|without|off|disable|0)$/;
                push @entries, [$_, \%field] for split " ", $field{uris} // "";
            }
        } else {
            while ($text =~ /^\s*deb(?:-src)?\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s+(.*)/mg) {
                my %field = (suites => $3, components => $4);
                my $uri = $2;
                %field = (%field, map { /^([^=]+?)[+-]?=(.*)/ ? (lc $1, $2) : () } split " ", $1 // "");
                push @entries, [$uri, \%field];
            }
        }
    }
    for my $entry (@entries) {
        my ($uri, $field) = @$entry;
        next if $uri =~ /^cdrom:/;
        next unless grep { $_ eq "main" } split " ", $field->{components} // "";
        my @suites = grep { /^\Q$codename\E(-security)?$/ } split " ", $field->{suites} // "";
        # The release before has an older major version.
        for my $suite (@suites, grep { $_ } map { $_ eq $codename && $before } @suites) {
            next if $seen{"$uri $suite"}++;
            print "Types: deb-src\nURIs: $uri\nSuites: $suite\nComponents: main\n";
            for my $name ("Signed-By", "Trusted", "Check-Valid-Until") {
                print "$name: $field->{lc $name}\n" if defined $field->{lc $name};
            }
            print "\n";
        }
    }'

private_apt_configuration() { # the system's own apt configuration, lists and caches stay untouched
    cat <<CONFIGURATION
Dir::Etc::sourcelist "$build/apt/debian.sources";
Dir::Etc::sourceparts "/dev/null";
Dir::State::lists "$build/apt/lists";
Dir::Cache "$build/apt/cache";
Acquire::Languages "none";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
CONFIGURATION
}

private_lists() {
    eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
    # shellcheck disable=SC2154 # set by apt-config
    set -- "$list" "$parts"*.list "$parts"*.sources
    private_apt_configuration | as_user tee "$build/apt/apt.conf" &&
        perl -e "$source_entries" "$codename" bullseye "$@" | as_user tee "$build/apt/debian.sources" &&
        as_user mkdir -p "$build/apt/lists/partial" "$build/apt/cache" || return
    if ! [ -s "$build/apt/debian.sources" ]; then
        echo "no entry for Debian's $codename main in: $*"
        return 1
    fi
    as_user apt-get -c "$build/apt/apt.conf" update
}

fetch_source() {
    private_lists || return
    # A vendor's archive may use the same suite names: only what the signed release file calls Debian stays.
    # shellcheck disable=SC2016 # apt's own variables
    as_user apt-get -c "$build/apt/apt.conf" indextargets --format '$(ORIGIN)|$(REPO_URI)|$(RELEASE)' 'Created-By: Sources' |
        sort -u | as_user tee "$build/apt/origins" || return
    perl -e '
        use strict; use warnings;
        my ($origins, $list) = @ARGV;
        open my $in, "<", $origins or die "$origins: $!\n";
        my %debian = map { chomp; my ($o, $u, $s) = split /\|/; $u =~ s!/*$!!; $o eq "Debian" ? ("$u $s", 1) : () } <$in>;
        open $in, "<", $list or die "$list: $!\n";
        local $/ = "";
        while (my $stanza = <$in>) {
            my ($u) = $stanza =~ /^URIs: (.*?)\/*$/m;
            my ($s) = $stanza =~ /^Suites: (.*)$/m;
            print $stanza if $debian{"$u $s"};
        }' "$build/apt/origins" "$build/apt/debian.sources" | as_user tee "$build/apt/debian-only.sources"
    if ! [ -s "$build/apt/debian-only.sources" ]; then
        echo 'no source index of Debian could be read'
        return 1
    fi
    as_user cp "$build/apt/debian-only.sources" "$build/apt/debian.sources" || return
    # The newest version is built, what there is of older ones gives profiles that are out of date.
    unpack current postgresql-15 '' -r || return
    version=$(version_of current)
    unpack older postgresql-15 "$version" || echo 'no older version of postgresql-15'
    unpack major postgresql-13 '' -r || echo 'no postgresql-13'
}

unpack() { # NAME PACKAGE EXCEPT [-r]: the oldest (-r: the newest) version of PACKAGE that is not EXCEPT
    tree=$source/$1 package=$2 except=$3
    shift 3
    # A mirror may list a version whose files it does not have.
    for version in $(as_user apt-cache -c "$build/apt/apt.conf" showsrc "$package" |
        sed -n 's/^Version: //p' | sort -u -V "$@"); do
        [ "$version" != "$except" ] || continue
        as_user rm -rf "$tree" "$source/unpacked" && as_user mkdir "$source/unpacked" || return
        if in_dir "$source/unpacked" apt-get -c "$build/apt/apt.conf" source "$package=$version"; then
            for directory in "$source"/unpacked/*/; do
                as_user mv "$directory" "$tree" || return
            done
            as_user rm -rf "$source/unpacked"
            return
        fi
    done
    return 1
}

version_of() { # NAME
    dpkg-parsechangelog -l "$source/$1/debian/changelog" -S Version
}
step source 'the sources of PostgreSQL, from Debian' fetch_source
for name in current older major; do
    if [ -d "$source/$name" ]; then say "$name: PostgreSQL $(version_of $name)"; fi
done

# shellcheck disable=SC2086 # a list of words
exec env PATH="$path" HOME="$home" LC_ALL=C TZ=UTC python3 "$root/examples/postgres/postgres.py" \
    --build "$build" --user "$user" --began "$began" --rounds "$rounds" $options
