// Room for patches at the beginning of functions, whose addresses the linker collects.
//# Args: -fpatchable-function-entry=4,2
//# Variants: pie+O2 static no-pie
//# Output: two places and more, NOPs in front
#include <stdio.h>
extern const unsigned char *const __start___patchable_function_entries[];
extern const unsigned char *const __stop___patchable_function_entries[];
int function(int n);
int function(int n) { return n + 1; }
int main(void) {
    long count = __stop___patchable_function_entries - __start___patchable_function_entries;
    const unsigned char *entry = __start___patchable_function_entries[0];
    if (function(1) != 2)
        return 1;
    puts(count >= 2 && (entry[0] == 0x90 || entry[0] == 0x66) ? "two places and more, NOPs in front"
                                                              : "none");
    return 0;
}
