// The address sanitizer: the shadow of a program whose segments lie elsewhere.
//# Args: -fsanitize=address -g
//# Link: -fsanitize=address
//# Variants: pie no-pie+O2
//# Output: clean
#include <stdio.h>
#include <stdlib.h>
static int global[10];
int main(int argc, char **argv) {
    int *heap = malloc(sizeof global);
    (void)argv;
    heap[argc] = global[argc] = 1;
    puts(heap[1] + global[1] == 2 ? "clean" : "odd");
    free(heap);
    return 0;
}
