// Buffered files, sorting with a callback, environment, command line.
//# Run: b a c
//# Args: -D_GNU_SOURCE
//# Variants: pie static no-pie+O2
//# Output: a b c program set
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }
int main(int argc, char **argv) {
    char line[20];
    FILE *file = tmpfile();
    qsort(argv + 1, (size_t)argc - 1, sizeof *argv, compare);
    for (int i = 1; i < argc; i++)
        fprintf(file, "%s ", argv[i]);
    rewind(file);
    setenv("HUGE_TEST", "set", 1);
    printf("%s%s %s\n", fgets(line, 20, file), program_invocation_short_name, getenv("HUGE_TEST"));
    return fclose(file);
}
