#!/bin/sh
# Builds Debian's PostgreSQL 15 twice, plain and with CC="hugealign gcc", and proves the difference:
# PostgreSQL's own regression suite, `hugealign verify`, `hugealign warm`, a live server, one table.
#
# Root is used for missing Debian packages only; everything else runs as an ordinary user.
# Every finished step leaves a stamp file, so a second run continues where the first one stopped.
# Exit status: 0 all promises kept, 1 one is broken, 2 usage, 3 something on this machine is missing.
set -eu

usage() {
    cat <<'USAGE'
usage: run.sh [--build-dir DIR] [--clean] [--no-check]

  --build-dir DIR  where everything is built (default: build/postgres in the repository)
  --clean          begin with an empty build directory instead of resuming
  --no-check       leave out PostgreSQL's regression suite
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
check=yes
while [ $# -gt 0 ]; do
    case $1 in
    --build-dir) [ $# -ge 2 ] || usage_error '--build-dir needs a directory'; build=$2; shift ;;
    --build-dir=*) build=${1#*=} ;;
    --clean) clean=yes ;;
    --no-check) check=no ;;
    -h | --help) usage; exit 0 ;;
    *) usage_error "unknown argument: $1" ;;
    esac
    shift
done

# ---- words to the reader -----------------------------------------------------------------------

began=$(date +%s)
broken=0 # promises that this run found broken

say() {
    set -- "$(($(date +%s) - began))" "$*"
    printf '[%02d:%02d] %s\n' $(($1 / 60)) $(($1 % 60)) "$2"
}

die() { # STATUS WORDS: says what is wrong and ends
    printf 'run.sh: %s\n' "$2" >&2
    exit "$1"
}

promise_broken() {
    printf 'run.sh: BROKEN: %s\n' "$1" >&2
    broken=$((broken + 1))
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
results=$build/results # what the table is made of
home=$build/home
data=$build/data
source=$build/source/postgresql-15

stop_servers() {
    for variant in plain hugealign; do
        if [ -e "$data/$variant/postmaster.pid" ]; then
            as_user "$build/postgres-$variant/bin/pg_ctl" -D "$data/$variant" -m fast -w stop \
                >>"$logs/server-stop.log" 2>&1 || :
        fi
    done
}

sockets=
cleanup() {
    status=$?
    trap '' HUP INT TERM
    stop_servers
    if [ -n "$sockets" ]; then rm -rf "$sockets"; fi
    exit "$status"
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

if [ $clean = yes ]; then
    stop_servers
    say "removing $build"
    rm -rf "$build"
fi
mkdir -p "$stamps" "$logs" "$results"
# Debian's PostgreSQL installs parts of itself outside a --prefix that has no "postgres" in it; ours always has.
# What the ordinary user writes into; the directory itself, stamps and logs stay ours.
for name in apt source plain postgres-plain hugealign postgres-hugealign data home; do
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
for package in gcc libc6-dev make bison flex perl libreadline-dev zlib1g-dev dpkg-dev procps; do
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
    my ($codename, @files) = @ARGV;
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
        for my $suite (grep { /^\Q$codename\E$/ } split " ", $field->{suites} // "") {
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
        perl -e "$source_entries" "$codename" "$@" | as_user tee "$build/apt/debian.sources" &&
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
    as_user cp "$build/apt/debian-only.sources" "$build/apt/debian.sources" &&
        in_dir "$build/source" sh -c 'rm -rf postgresql-15*' || return
    # The newest version first; a mirror may list a security update whose files it does not have.
    fetched=no
    for version in $(as_user apt-cache -c "$build/apt/apt.conf" showsrc postgresql-15 |
        sed -n 's/^Version: //p' | sort -u -V -r); do
        if in_dir "$build/source" apt-get -c "$build/apt/apt.conf" source "postgresql-15=$version"; then
            fetched=yes
            break
        fi
    done
    [ $fetched = yes ] || return
    for directory in "$build"/source/postgresql-15-*/; do
        as_user mv "$directory" "$source" || return
    done
}
step source 'the source of postgresql-15, from Debian' fetch_source
version=$(dpkg-parsechangelog -l "$source/debian/changelog" -S Version)
say "PostgreSQL $version"

# ---- 3. two builds -----------------------------------------------------------------------------

jobs=$(nproc)
for variant in plain hugealign; do
    # The one difference between the two builds:
    if [ $variant = plain ]; then cc=gcc; else cc='hugealign gcc'; fi
    tree=$build/$variant
    step $variant-configure "$variant: ./configure CC=\"$cc\"" \
        in_dir "$tree" "$source/configure" --prefix="$build/postgres-$variant" "CC=$cc"
    step $variant-make "$variant: make -j$jobs" in_dir "$tree" make -s -j"$jobs"
    step $variant-install "$variant: make install" in_dir "$tree" make -s install
done

# What configure found must be the same in both, but for the compiler's words and the directories' names.
settings() { # VARIANT FILE
    sed -e 's/hugealign gcc/gcc/g' -e "s|$build/$1|BUILD|g" -e "s|$build/postgres-$1|PREFIX|g" "$build/$1/$2"
}
for file in config.status src/include/pg_config.h src/Makefile.global; do
    settings plain $file >"$results/plain-settings"
    settings hugealign $file >"$results/hugealign-settings"
    diff "$results/plain-settings" "$results/hugealign-settings" >"$results/settings.diff" || {
        cat "$results/settings.diff" >&2
        promise_broken "configure found something else with the wrapper: $file"
    }
done
for name in hugealign-configure hugealign-make; do
    if grep 'hugealign: ' "$logs/$name.log" >&2; then promise_broken "the wrapper printed something (log: $logs/$name.log)"; fi
done

# ---- 4. PostgreSQL's own regression suite ------------------------------------------------------

if [ $check = yes ]; then
    step hugealign-check 'hugealign: make check' in_dir "$build/hugealign" make -s check
    grep -h 'All .* tests passed' "$logs/hugealign-check.log" || promise_broken 'make check did not say that all tests passed'
fi

# ---- 5. verify ---------------------------------------------------------------------------------

say 'hugealign verify: the server and every installed shared library'
set -- "$build/hugealign/src/backend/postgres" "$build/postgres-hugealign/bin/postgres"
for library in $(find "$build/postgres-hugealign/lib" -name '*.so*' -type f | sort); do
    set -- "$@" "$library"
done
if as_user hugealign verify "$@" >"$logs/verify.log" 2>&1; then
    say "clean: postgres and $(($# - 2)) shared libraries"
else
    cat "$logs/verify.log" >&2
    promise_broken "hugealign verify is not clean (log: $logs/verify.log)"
fi

# ---- 6. warm, start, ask the kernel ------------------------------------------------------------

# $build/data and the measurements are new in every run.
stop_servers
as_user find "$data" -mindepth 1 -delete
say 'hugealign warm: bin/postgres into huge folios of the page cache'
as_user hugealign warm "$build/postgres-hugealign/bin/postgres" >"$logs/warm.log" 2>&1 || {
    cat "$logs/warm.log" >&2
    promise_broken 'hugealign warm did not succeed'
}

sockets=$(mktemp -d /tmp/hugealign-postgres.XXXXXX) # short: a socket's path has 107 bytes at most
if [ "$(id -u)" -eq 0 ]; then chown "$user" "$sockets"; fi

client() { # VARIANT PROGRAM [ARGUMENT...]
    program=$build/postgres-$1/bin/$2 socket=$sockets/$1
    shift 2
    as_user "$program" -h "$socket" -U postgres "$@"
}

for variant in plain hugealign; do
    say "$variant: initdb, start, pgbench -i -s 5"
    bin=$build/postgres-$variant/bin
    as_user mkdir "$sockets/$variant"
    {
        as_user "$bin/initdb" -D "$data/$variant" -U postgres -A trust --no-locale -E UTF8 &&
            as_user "$bin/pg_ctl" -D "$data/$variant" -l "$data/$variant.log" -w \
                -o "-c listen_addresses='' -c unix_socket_directories=$sockets/$variant" start &&
            client $variant pgbench -i -s 5 -q postgres
    } >"$logs/$variant-server.log" 2>&1 || {
        tail -n 25 "$logs/$variant-server.log" >&2
        die 1 "$variant: no server (logs: $logs/$variant-server.log, $data/$variant.log)"
    }
done

postmaster() { # VARIANT: its process id
    head -n 1 "$data/$1/postmaster.pid"
}

as_user hugealign ps "$(postmaster hugealign)" >"$logs/ps.log" 2>&1 ||
    promise_broken 'hugealign ps: the text of the postmaster is not on huge pages'
cat "$logs/ps.log"

text_in_smaps() { # VARIANT: KiB mapped with PMDs and KiB mapped, of the server's executable mappings
    as_user cat "/proc/$(postmaster "$1")/smaps" | awk -v file="$build/postgres-$1/bin/postgres" '
        /^[0-9a-f]+-[0-9a-f]+ / { mine = ($2 == "r-xp" && $6 == file) }
        mine && $1 == "Size:" { size += $2 }
        mine && $1 == "FilePmdMapped:" { huge += $2 }
        END { printf "%d of %d KiB\n", huge, size }'
}
for variant in plain hugealign; do
    text_in_smaps $variant >"$results/$variant-smaps"
done
read -r huge _ mapped _ <"$results/hugealign-smaps"
if [ "$mapped" -eq 0 ] || [ "$huge" -ne "$mapped" ]; then
    promise_broken "the kernel maps $huge of $mapped KiB of the postmaster's text with PMDs"
fi

rounds=2
rm -f "$results/plain-tps" "$results/hugealign-tps"
order='plain hugealign'
for round in $(seq $rounds); do
    for variant in $order; do
        say "$variant: pgbench -S -T 10, round $round of $rounds"
        client "$variant" pgbench -n -S -T 10 postgres >"$logs/$variant-pgbench-$round.log" 2>&1 || {
            cat "$logs/$variant-pgbench-$round.log" >&2
            promise_broken "$variant: pgbench failed"
        }
        sed -n 's/^tps = \([0-9]*\).*/\1/p' "$logs/$variant-pgbench-$round.log" >>"$results/$variant-tps"
    done
    order='hugealign plain' # the other way round, so that none is always second
done
stop_servers

# ---- 7. the table ------------------------------------------------------------------------------

file_coverage() { # VARIANT: share of the text that lies in whole windows, and how many those are
    # The exit status says that there are findings, which is what is expected of the plain build.
    as_user hugealign verify --format json "$build/postgres-$1/bin/postgres" >"$results/$1-verify.json" || :
    # shellcheck disable=SC2016 # Perl's variables
    perl -MJSON::PP -0777 -e '
        my $c = decode_json(<>)->{files}[0]{coverage};
        printf "%.1f %% (%d windows)\n", 100 * $c->{huge_bytes} / $c->{text_bytes}, $c->{windows}' "$results/$1-verify.json"
}

for variant in plain hugealign; do
    binary=$build/postgres-$variant/bin/postgres
    {
        file_coverage $variant
        cat "$results/$variant-smaps"
        echo "$(($(stat -c %s "$binary") / 1024)) KiB"
        echo "$(($(stat -c '%b * %B' "$binary") / 1024)) KiB"
        paste -s -d ' ' "$results/$variant-tps"
    } >"$results/$variant-column"
done

printf '\nPostgreSQL %s, %s\n\n' "$version" "$(gcc --version | head -n 1)"
{
    printf '%s\n' 'bin/postgres' 'file: text in whole windows' 'live postmaster: text PMD-mapped' \
        'file: apparent size' 'file: on disk' "pgbench -S, tps ($rounds rounds)" >"$results/words-column"
    for variant in plain hugealign; do
        { echo $variant; cat "$results/$variant-column"; } >"$results/$variant-table"
    done
    paste -d '|' "$results/words-column" "$results/plain-table" "$results/hugealign-table"
} | awk -F '|' '{ printf "%-34s %20s %20s\n", $1, $2, $3 }'
cat <<'NOTE'

tps on a shared or virtual machine: no difference between the two columns can be trusted, in either direction.
NOTE

if [ "$broken" -ne 0 ]; then die 1 "$broken promise(s) broken, see above"; fi
say 'every promise kept'
