// A stdio stream whose functions are the program's own, and one in memory.
//# Args: -D_GNU_SOURCE
//# Variants: pie static no-pie+O2
//# Output: 21 bytes, turned: dlrow
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static size_t total;
static ssize_t count(void *cookie, const char *data, size_t size) {
    *(size_t *)cookie += size;
    (void)data;
    return (ssize_t)size;
}
int main(void) {
    char *text = NULL;
    size_t length = 0;
    FILE *stream = fopencookie(&total, "w", (cookie_io_functions_t){.write = count});
    FILE *memory = open_memstream(&text, &length);
    fprintf(stream, "%s %d\n", "twenty-one bytes", 123);
    fclose(stream);
    for (int i = 4; i >= 0; i--)
        fputc("world"[i], memory);
    fclose(memory);
    printf("%d bytes, turned: %.*s\n", (int)total, (int)length, text);
    free(text);
    return 0;
}
