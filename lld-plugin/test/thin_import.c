// A hot local function does not keep ThinLTO from importing what calls it: `other` is inlined across modules.
// REQUIRES: lld-loads-plugins
// RUN: rm -rf %t && mkdir %t && echo '# hugealign.order/1' > %t/order && echo helper >> %t/order
// RUN: env HUGEALIGN_PROFILE=%t/order %clang -O2 -flto=thin -c %s -o %t/1.o
// RUN: env HUGEALIGN_PROFILE=%t/order %clang -O2 -flto=thin -c %S/Inputs/lto_other.c -o %t/2.o
// RUN: ld.lld --load-pass-plugin=%plugin -shared -z keep-text-section-prefix %t/1.o %t/2.o -o %t/out.so
// RUN: llvm-objdump -d --disassemble-symbols=wanted %t/out.so | FileCheck %s
// RUN: llvm-objdump -d -j .text.hot %t/out.so | FileCheck %s --check-prefix=HOT
// CHECK: <wanted>:
// CHECK-NOT: <other
// CHECK: <helper
// HOT: <helper{{.*}}>:

int other(int);
int wanted(int x) { return other(x); }
