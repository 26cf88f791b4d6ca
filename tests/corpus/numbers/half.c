// Half precision: conversion is a function of libgcc where the processor has none.
//# SkipLinker: clang14 (clang 14 has no _Float16 without AVX512)
//# Variants: pie+O2 no-pie
//# Output: 1024.0 2050.0
#include <stdio.h>
int main(void) {
    volatile _Float16 a = (_Float16)1024.5f, b = (_Float16)2049.0f, sum = b + (_Float16)1.5f;
    printf("%.1f %.1f\n", (double)a, (double)sum);
    return 0;
}
