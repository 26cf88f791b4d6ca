// backtrace() through a library and back: the names of the program's exported functions.
//# Args: -D_GNU_SOURCE -fno-optimize-sibling-calls
//# Library: LIBRARY
//# Link: -rdynamic
//# Variants: pie pie+now
//# Output: innermost outermost main
void through(void (*function)(void));
#ifdef LIBRARY
void through(void (*function)(void)) {
    function();
    __asm__ volatile("");
}
#else
#include <execinfo.h>
#include <stdio.h>
#include <string.h>
void innermost(void);
void outermost(void);
void innermost(void) {
    static const char *const names[] = {"innermost", "outermost", "main"};
    void *frames[16];
    int count = backtrace(frames, 16), next = 0;
    char **lines = backtrace_symbols(frames, count);
    for (int i = 0; i < count && next < 3; i++)
        if (strstr(lines[i], names[next]))
            printf("%s%s", names[next++], strstr(lines[i], "main") ? "\n" : " ");
}
void outermost(void) {
    through(innermost);
    __asm__ volatile("");
}
int main(void) {
    outermost();
    return 0;
}
#endif
