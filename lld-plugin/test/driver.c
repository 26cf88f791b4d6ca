// Other things that a build does with CFLAGS: none of them may warn.  clang 14 objects to the bare option when it
// assembles, hence the options around it.
// DEFINE: %{quiet} = clang -Werror --start-no-unused-arguments -fpass-plugin=%plugin --end-no-unused-arguments
// RUN: rm -rf %t && mkdir %t && cd %t && cp %s x.c && echo '.globl x' > x.s && cp x.s x.S && echo 'int hot(int);' > x.h
// RUN: cd %t && export HUGEALIGN_PROFILE=%S/Inputs/hot.order
// RUN: %{quiet} -x c-header x.h -o x.h.pch && %{quiet} -include-pch x.h.pch -c x.c -o pch.o
// RUN: %{quiet} -S x.c -o y.s && %{quiet} -c y.s -o y.o && %{quiet} -c x.s -o x.o && %{quiet} -c x.S -o x.o
// RUN: %{quiet} -E x.c -o x.i && %{quiet} -M x.c -o x.d && %{quiet} -fsyntax-only x.c && %{quiet} -r pch.o -o r.o
// RUN: %{quiet} x.c -o program && ./program
// RUN: llvm-readelf -SW pch.o | FileCheck %s
// RUN: llvm-readelf -SW y.o | FileCheck %s
// RUN: llvm-readelf -SW r.o | FileCheck %s
// CHECK: .text.hot.hot

int hot(int x) { return x * 3; }
int main(void) { return hot(0); }
