// Coverage: counters and constructors that the compiler adds.
//# Args: --coverage
//# Link: --coverage
//# Variants: pie no-pie
//# Output: even
#include <stdio.h>
int main(int argc, char **argv) {
    (void)argv;
    puts(argc % 2 ? "even" : "odd");
    return 0;
}
