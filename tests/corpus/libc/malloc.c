// A malloc of the program's own takes the place of the library's, for the library too.
//# Args: -D_GNU_SOURCE -fno-builtin
//# Variants: pie no-pie
//# Output: ours: copy
#include <stddef.h>
#include <stdio.h>
#include <string.h>
static char arena[1 << 20] __attribute__((aligned(16)));
static size_t used;
void *malloc(size_t size) {
    void *result = arena + used;
    used += (size + 31) & ~(size_t)15;
    return used < sizeof arena ? result : NULL;
}
void free(void *address) { (void)address; }
void *calloc(size_t count, size_t size) { return memset(malloc(count * size), 0, count * size); }
void *realloc(void *old, size_t size) {
    void *result = malloc(size);
    return old ? memcpy(result, old, size) : result;
}
int main(void) {
    char *copy = strdup("copy");
    printf("%s: %s\n", copy >= arena && copy < arena + sizeof arena ? "ours" : "theirs", copy);
    return 0;
}
