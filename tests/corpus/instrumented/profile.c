// -pg: the profiler measures the text between two symbols, and writes its file at the end.
//# Args: -pg
//# Link: -pg
//# Variants: pie no-pie+O2
//# Output: 5050 written
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) static int sum(int n) { return n ? n + sum(n - 1) : 0; }
static void look(void) {}
int main(void) {
    atexit(look);
    printf("%d written\n", sum(100));
    return 0;
}
