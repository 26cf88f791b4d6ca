// Hash table, binary tree and sorting of the C library, each with callbacks.
//# Args: -D_GNU_SOURCE
//# Variants: pie static+O2
//# Output: two; a b c d; 4321
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int by_text(const void *a, const void *b) { return strcmp(a, b); }
static int backwards(const void *a, const void *b, void *unused) {
    (void)unused;
    return *(const char *)b - *(const char *)a;
}
static void show(const void *node, VISIT when, int depth) {
    (void)depth;
    if (when == postorder || when == leaf)
        printf("%s%s", *(const char *const *)node, strcmp(*(const char *const *)node, "d") ? " " : "; ");
}
int main(void) {
    static char one[] = "one", two[] = "two", letters[4][2] = {"c", "a", "d", "b"}, digits[] = "2143";
    void *tree = NULL;
    hcreate(10);
    hsearch((ENTRY){one, one}, ENTER);
    hsearch((ENTRY){two, two}, ENTER);
    printf("%s; ", (char *)hsearch((ENTRY){two, NULL}, FIND)->data);
    for (int i = 0; i < 4; i++)
        tsearch(letters[i], &tree, by_text);
    twalk(tree, show);
    qsort_r(digits, 4, 1, backwards, NULL);
    puts(digits);
    return 0;
}
