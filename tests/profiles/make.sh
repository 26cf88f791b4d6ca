#!/bin/sh
# Make the program of this directory and a profile of it in each format, by the real tools, in the directory $1.
# What the tools that are installed cannot make is left out; the tests that need it say so.
# The text files beside this script were made by it, so that they are read where the tools are missing.
set -eu
here=$(cd "${0%/*}" && pwd)
mkdir -p "$1"
cd "$1"
llvm=/usr/lib/llvm-19/bin

has() { command -v "$1" >/dev/null; }
quietly() { "$@" >>log 2>&1 || echo "make.sh: $* failed" >>log; }

# A name with a space, a backslash and parentheses; two locals of one name.
gcc -O1 -fno-omit-frame-pointer -fno-reorder-functions -ffunction-sections -c "$here/main.c" "$here/other.c"
objcopy --redefine-sym 'odd=odd name\(x)' main.o
gcc -Wl,--emit-relocs -Wl,--build-id main.o other.o -o prog
# So large that the offsets of functions in the file are addresses of others.
printf '.text\n.zero 0x600000, 0xcc\n.section .note.GNU-stack,"",@progbits\n' | as -o pad.o -
gcc -no-pie -Wl,--build-id pad.o main.o other.o -o fixed

if has perf; then
    quietly perf record -q -e cpu-clock:u -F 5000 -o flat.data ./prog 80000000
    quietly perf record -q -g -e cpu-clock:u -F 5000 -o stacks.data ./prog 80000000
    quietly perf record -q -g -e cpu-clock:u -F 5000 -o fixed-stacks.data ./fixed 80000000
    quietly perf record -q -e cpu-clock:u -F 5000 -o fixed-flat.data ./fixed 80000000
    # Packed by perf, and through a pipe: perf 6.1 gives these no build-ids.
    quietly perf record -q -z -e cpu-clock:u -F 5000 -o packed.data ./prog 80000000
    perf record -q -g -e cpu-clock:u -F 5000 -o - ./prog 80000000 2>>log >pipe.data || true
    perf script -i flat.data --no-demangle >flat.txt 2>>log || true
    perf script -i stacks.data --no-demangle >stacks.txt 2>>log || true
    perf script -i flat.data -F pid,event,ip --show-mmap-events >addresses.txt 2>>log || true
    perf script -i stacks.data -s "$(perf --exec-path)/scripts/python/stackcollapse.py" >folded.txt 2>>log || true
    perf script -i flat.data -F pid,event,ip >addresses-alone.txt 2>>log || true
fi
if has "$llvm/llvm-bolt"; then
    quietly "$llvm/llvm-bolt" prog -o instrumented --instrument --instrumentation-file="$PWD/prog.fdata"
    quietly ./instrumented 20000
    quietly "$llvm/llvm-bolt" prog -o bolted --data prog.fdata -w prog.yaml --reorder-functions=none
    [ ! -f flat.data ] || quietly "$llvm/perf2bolt" prog -p flat.data -nl -o no_lbr.fdata
fi
! has valgrind || quietly valgrind --tool=callgrind --callgrind-out-file=prog.callgrind ./prog 20000
if has gcov; then
    mkdir -p gcov && cd gcov
    gcc -O1 --coverage "$here/main.c" "$here/other.c" -o prog
    ./prog 5000 || true
    cd ..
fi
if has clang-19; then
    mkdir -p llvm && cd llvm
    clang-19 -O1 -fprofile-instr-generate "$here/main.c" "$here/other.c" -o prog
    LLVM_PROFILE_FILE=prog.profraw ./prog 5000 || true
    clang-19 -O1 -fprofile-generate "$here/main.c" "$here/other.c" -o prog-ir
    LLVM_PROFILE_FILE=prog-ir.profraw ./prog-ir 5000 || true
    "$llvm/llvm-profdata" merge prog.profraw -o prog.profdata
    "$llvm/llvm-profdata" merge --text prog.profraw -o prog.proftext
    # The order in which functions ran first.  By relative names: the list has them.
    cp "$here/main.c" "$here/other.c" .
    clang-19 -O1 -fprofile-generate -mllvm -pgo-temporal-instrumentation main.c other.c -o prog-order
    LLVM_PROFILE_FILE=prog-order.profraw ./prog-order 5000 || true
    "$llvm/llvm-profdata" merge prog-order.profraw -o prog-order.profdata
    "$llvm/llvm-profdata" order prog-order.profdata -o ../symbols.txt
    "$llvm/llvm-profdata" merge --sample "$here/autofdo.txt" -o sample.profdata
    cd ..
fi
