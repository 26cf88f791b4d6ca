#!/bin/sh
# The wheel $1 alone: installed by $PYTHON (python3) into an empty environment away from the source, it does its main jobs.
set -eu
wheel=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
unset PYTHONPATH
"${PYTHON:-python3}" -m venv environment
environment/bin/python -m pip install -q --disable-pip-version-check --no-index --no-deps "$wheel"
PATH=$scratch/environment/bin:$PATH
python -I -W error -c 'import hugealign, sys; sys.exit(not hugealign.__file__.startswith(sys.prefix))'

step() { echo "installed.sh: $*"; }
ends_with() {
    expected=$1
    shift
    status=0
    "$@" >out 2>&1 || status=$?
    [ "$status" = "$expected" ] || { cat out; echo "installed.sh: status $status, not $expected: $*" >&2; exit 1; }
}

step "$(python -V), $(hugealign --version)"
for command in $(python -c 'from hugealign.cli import COMMANDS; print(*COMMANDS)'); do
    hugealign "$command" --help >out
done

step link, verify, run
printf 'int bulk(void); int main(void) { return bulk() != 42; }\n' >main.c
echo 'asm(".text; .skip 5000000, 0xcc"); int bulk(void) { return 42; }' >bulk.c
gcc main.c bulk.c -o plain
hugealign gcc main.c bulk.c -o server
hugealign-gcc main.c bulk.c -o server2
cmp server server2
./server
ends_with 0 hugealign verify server
ends_with 1 hugealign verify plain
ends_with 3 hugealign verify main.c

step fix, undo
hugealign fix plain -o fixed >out
./fixed
hugealign verify --fail-on=never fixed >out
grep -q ' in 3 windows' out
hugealign fix --undo fixed -o back >out
cmp plain back

step order
echo bulk >names
hugealign order names -b plain -o an.order --cpu skylake >out
grep -q '^# hugealign.order/1' an.order

step page cache, processes, machine
hugealign warm --check server >out || [ $? = 1 ]
hugealign run -- ./server
hugealign doctor >out || [ $? = 1 ]
ends_with 3 hugealign ps 'no such process'

step parts for other build tools
for part in toolchain cmake ldscripts shims; do
    [ -e "$(hugealign path $part)" ]
done
step passed
