// A fat object: the machine code has the sections, and what a link makes of the bitcode has them too.
// REQUIRES: fat-lto, lld-loads-plugins
// RUN: echo '# hugealign.order/1' > %t && echo wanted >> %t && echo local >> %t
// DEFINE: %{lto} =
// DEFINE: %{compile} = env HUGEALIGN_PROFILE=%t %clang -O1 -flto=%{lto} -ffat-lto-objects -c %s -o %t.o
// DEFINE: %{link} = ld.lld --fat-lto-objects -shared --load-pass-plugin=%plugin -z keep-text-section-prefix %t.o -o %t.so
// REDEFINE: %{lto} = full
// RUN: %{compile} && llvm-readelf -SW %t.o | FileCheck %s
// RUN: %{link} && llvm-objdump -d -j .text.hot %t.so | FileCheck %s --check-prefix=LINKED
// REDEFINE: %{lto} = thin
// RUN: %{compile} && llvm-readelf -SW %t.o | FileCheck %s
// RUN: %{link} && llvm-objdump -d -j .text.hot %t.so | FileCheck %s --check-prefix=LINKED
// CHECK-DAG: .text.hot.wanted
// CHECK-DAG: .text.hot.local
// LINKED-DAG: <wanted>:
// LINKED-DAG: <local>:

static __attribute__((noinline)) int local(volatile int *x) { return *x * 3; }
int wanted(int x) { return local(&x); }
