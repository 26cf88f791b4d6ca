// The plugin at the compilation only, as with linkers that load none: full LTO keeps the sections.
// RUN: rm -rf %t && mkdir %t && echo '# hugealign.order/1' > %t/order && echo wanted >> %t/order
// RUN: printf 'helper\tfile=lto_other.c\n' >> %t/order
// RUN: env HUGEALIGN_PROFILE=%t/order %clang -O1 -flto -c %s -o %t/1.o
// RUN: env HUGEALIGN_PROFILE=%t/order %clang -O1 -flto -c %S/Inputs/lto_other.c -o %t/2.o
// RUN: ld.lld -shared -z keep-text-section-prefix %t/1.o %t/2.o -o %t/out.so
// RUN: llvm-objdump -d -j .text.hot %t/out.so | FileCheck %s --implicit-check-not='<helper'
// CHECK-DAG: <wanted>:
// CHECK-DAG: <helper{{.*}}>:

int other(int);
static __attribute__((noinline)) int helper(volatile int *x) { return *x * 3; }
int wanted(int x) { return helper(&x) + other(x); }
