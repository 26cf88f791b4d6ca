// Entries of .init_array get argc, argv and the environment; .preinit_array runs before all.
//# Variants: pie static no-pie pie+gc+O2
//# Run: one two
//# Output: preinit, init with 3 arguments: two, environment
#include <stdio.h>
static int seen;
static void before(int count, char **words, char **variables) {
    (void)words;
    (void)variables;
    seen = count;
}
static void entry(int count, char **words, char **variables) {
    printf("%s, init with %d arguments: %s, ", seen == count ? "preinit" : "nothing", count, words[2]);
    puts(variables && variables[0] ? "environment" : "none");
}
__attribute__((section(".preinit_array"), used)) static void (*first)(int, char **, char **) = before;
__attribute__((section(".init_array"), used)) static void (*second)(int, char **, char **) = entry;
int main(void) { return 0; }
