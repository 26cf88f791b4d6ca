// Regular expressions, globs and words of the C library.
//# Variants: pie static
//# Output: 3-6 match no
#include <fnmatch.h>
#include <regex.h>
#include <stdio.h>
int main(void) {
    regex_t expression;
    regmatch_t found[1];
    if (regcomp(&expression, "[0-9]+", REG_EXTENDED) || regexec(&expression, "abc123", 1, found, 0))
        return 1;
    printf("%d-%d %s %s\n", (int)found[0].rm_so, (int)found[0].rm_eo,
           fnmatch("*.so", "lib.so", 0) ? "no" : "match", fnmatch("*.so", "lib.a", 0) ? "no" : "match");
    regfree(&expression);
    return 0;
}
