// A function in a group stays in it, so the linker keeps one copy.
// RUN: echo '# hugealign.order/1' > %t && echo _Z6sharedi >> %t
// RUN: env HUGEALIGN_PROFILE=%t %clang -O0 -c %s -o %t.1.o
// RUN: env HUGEALIGN_PROFILE=%t %clang -O0 -DOTHER -c %s -o %t.2.o
// RUN: llvm-readelf -gW %t.1.o | FileCheck %s
// CHECK: COMDAT group section [{{.*}}] `.group' [_Z6sharedi]
// CHECK-NEXT: Name
// CHECK-NEXT: .text.hot._Z6sharedi
// RUN: clang %t.1.o %t.2.o -o %t.out && %t.out && llvm-nm %t.out | FileCheck %s --check-prefix=ONE
// ONE: _Z6sharedi
// ONE-NOT: _Z6sharedi

inline int shared(int x) { return x + 1; }
#ifdef OTHER
int other() { return shared(1); }
#else
int other();
int main() { return other() - shared(1); }
#endif
