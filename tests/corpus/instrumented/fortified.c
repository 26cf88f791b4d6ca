// A fortified function sees an overrun.
//# Args: -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -Wno-unknown-warning-option -Wno-stringop-overflow -Wno-fortify-source
//# Variants: pie static
//# Expect: -6
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
int main(int argc, char **argv) {
    const struct rlimit none = {0, 0};
    char small[8];
    const char *volatile text = argv[0] ? "a text that is too long" : "";
    setrlimit(RLIMIT_CORE, &none);
    strcpy(small, text);
    return small[argc];
}
