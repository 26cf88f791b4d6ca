// The pass runs in every compilation, at -O0 too and in a process of its own.
// DEFINE: %{options} =
// DEFINE: %{compile} = env HUGEALIGN_PROFILE=%S/Inputs/hot.order %clang %{options} -c %s -o %t.o
// DEFINE: %{look} = llvm-readelf -SW %t.o | FileCheck %s
// REDEFINE: %{options} = -O0
// RUN: %{compile} && %{look}
// REDEFINE: %{options} = -O0 -fno-integrated-cc1
// RUN: %{compile} && %{look}
// REDEFINE: %{options} = -O1 -g
// RUN: %{compile} && %{look}
// REDEFINE: %{options} = -O3 -ffunction-sections
// RUN: %{compile} && %{look}
// REDEFINE: %{options} = -O1 -mllvm -opt-bisect-limit=0
// RUN: %{compile} && %{look}
// CHECK-NOT: .text.hot.cold
// CHECK: .text.hot.hot PROGBITS {{.*}} AX
// CHECK-NOT: .text.hot.cold

// Code that is not hot keeps its section: there is one section more, not one per function.
// REDEFINE: %{options} = -O2
// RUN: %{compile} && llvm-readelf -SW %t.o | FileCheck %s --check-prefix=FEW
// FEW: .text PROGBITS {{.*}} AX
// FEW-NEXT: .text.hot.hot PROGBITS {{.*}} AX
// FEW-NOT: AX

// Without a profile the object is the very same.
// DEFINE: %{same} = %clang %{options} -c %s -o %t.with.o && clang %{options} -c %s -o %t.without.o && cmp %t.with.o %t.without.o
// REDEFINE: %{options} = -O0
// RUN: %{same}
// REDEFINE: %{options} = -O2 -g
// RUN: %{same}
// REDEFINE: %{options} = -O2 -flto
// RUN: %{same}
// REDEFINE: %{options} = -O2 -flto=thin
// RUN: %{same}

int hot(int x) { return x * 3; }
int cold(int x) { return x * 5; }
int unlisted(int x) { return x * 7; }
