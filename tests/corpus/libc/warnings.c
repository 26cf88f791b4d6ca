// The C library's warnings about what a static program or a careless one calls.
//# Args: -D_DEFAULT_SOURCE -Wno-deprecated-declarations
//# Variants: static pie static+gc
//# Output: name
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    char buffer[L_tmpnam];
    (void)argv;
    if (argc > 5 && getpwnam("root"))
        return 1;
    puts(tmpnam(buffer) ? "name" : "none");
    return 0;
}
