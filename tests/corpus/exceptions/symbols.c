// backtrace_symbols finds the names that -rdynamic exports.
//# Link: -rdynamic
//# Args: -fno-optimize-sibling-calls
//# Variants: pie no-pie pie+now
//# Output: yes
#include <execinfo.h>
#include <stdio.h>
#include <string.h>
int visible(int depth);
__attribute__((noinline)) int visible(int depth) {
    void *frames[20];
    if (depth)
        return visible(depth - 1) + 1;
    int count = backtrace(frames, 20), named = 0;
    char **names = backtrace_symbols(frames, count);
    for (int i = 0; i < count; i++)
        named += strstr(names[i], "(visible+") != NULL;
    return named == 4;
}
int main(void) {
    puts(visible(3) == 4 ? "yes" : "no");
    return 0;
}
