// Obstacks, argz vectors and string functions that only the GNU library has.
//# Args: -D_GNU_SOURCE
//# Variants: pie static
//# Output: grown text, 3 words, base.c
#include <argz.h>
#include <obstack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define obstack_chunk_alloc malloc
#define obstack_chunk_free free
int main(void) {
    struct obstack stack;
    char *words = NULL;
    size_t length = 0;
    obstack_init(&stack);
    obstack_grow(&stack, "grown ", 6);
    obstack_grow0(&stack, "text", 4);
    argz_create_sep("one:two:three", ':', &words, &length);
    printf("%s, %d words, %s\n", (char *)obstack_finish(&stack), (int)argz_count(words, length),
           basename("/some/base.c"));
    obstack_free(&stack, NULL);
    free(words);
    return 0;
}
