// The sanitizer of undefined behaviour, and what it prints.
//# Args: -fsanitize=undefined -fno-sanitize-recover=all
//# Link: -fsanitize=undefined
//# Variants: pie no-pie+O2
//# Expect: 1
//# Output: before
#include <limits.h>
#include <stdio.h>
int main(int argc, char **argv) {
    (void)argv;
    puts("before");
    fflush(stdout);
    return argc + INT_MAX == 5;
}
