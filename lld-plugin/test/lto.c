// Full LTO and ThinLTO, the plugin at the compilation, at the link, and at both.  Of the two functions called `helper`
// only that of the other file is hot.
// REQUIRES: lld-loads-plugins
// RUN: rm -rf %t && mkdir %t && echo '# hugealign.order/1' > %t/order && echo wanted >> %t/order
// RUN: printf 'helper\tfile=lto_other.c\n' >> %t/order
// DEFINE: %{lto} =
// DEFINE: %{profile} = env HUGEALIGN_PROFILE=%t/order
// DEFINE: %{compile} = %{profile} %clang -O1 -flto=%{lto} -c %s -o %t/1.o && %{profile} %clang -O1 -flto=%{lto} -c %S/Inputs/lto_other.c -o %t/2.o
// DEFINE: %{plain} = clang -O1 -flto=%{lto} -c %s -o %t/1.o && clang -O1 -flto=%{lto} -c %S/Inputs/lto_other.c -o %t/2.o
// DEFINE: %{link} = ld.lld --load-pass-plugin=%plugin -shared -z keep-text-section-prefix %t/1.o %t/2.o -o %t/out.so
// DEFINE: %{look} = llvm-objdump -d -j .text.hot %t/out.so | FileCheck %s --implicit-check-not='<helper'

// REDEFINE: %{lto} = full
// RUN: %{compile} && %{profile} %{link} && %{look} --check-prefixes=WANTED,HELPER
// Full LTO's single module no longer tells the source files apart: only the compilation can.
// RUN: %{plain} && %{profile} %{link} && %{look} --check-prefixes=WANTED
// REDEFINE: %{lto} = thin
// RUN: %{compile} && %{profile} %{link} && %{look} --check-prefixes=WANTED,HELPER
// RUN: %{plain} && %{profile} %{link} && %{look} --check-prefixes=WANTED,HELPER
// The link knows what the compilation has marked, without an order file.
// RUN: %{compile} && %{link} && %{look} --check-prefixes=WANTED,HELPER
// WANTED-DAG: <wanted>:
// HELPER-DAG: <helper{{.*}}>:

// One warning per link, however many modules.
// RUN: env HUGEALIGN_PROFILE=/nowhere %{link} 2>&1 | FileCheck %s --check-prefix=WARNED --implicit-check-not=warning
// WARNED: warning: hugealign: /nowhere: No such file or directory; no section was changed

// On clang's own command line for the link, the option does nothing: clang does not tell lld.
// RUN: %{plain} && %{profile} %clang -flto -fuse-ld=lld -shared -Wl,-z,keep-text-section-prefix %t/1.o %t/2.o -o %t/driver.so
// RUN: llvm-readelf -SW %t/driver.so | FileCheck %s --check-prefix=DRIVER
// DRIVER-NOT: .text.hot

int other(int);
static __attribute__((noinline)) int helper(volatile int *x) { return *x * 3; }
int wanted(int x) { return helper(&x) + other(x); }
