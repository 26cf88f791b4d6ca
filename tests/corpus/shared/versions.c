// Two versions of a symbol: the program is linked against the default, asks for the old one with dlvsym.
//# File: exports.map OLD { global: answer; local: *; }; NEW { global: answer; } OLD;
//# Library: LIBRARY -Wl,--version-script=exports.map
//# Link: -ldl
//# Variants: pie no-pie pie+gc pie+now pie+hash
//# Output: new 2 old 1
#ifdef LIBRARY
int answer_old(void);
int answer_new(void);
int answer_old(void) { return 1; }
int answer_new(void) { return 2; }
__asm__(".symver answer_old, answer@OLD\n.symver answer_new, answer@@NEW");
#else
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int answer(void);
int main(void) {
    int (*old)(void);
    *(void **)&old = dlvsym(RTLD_DEFAULT, "answer", "OLD");
    printf("new %d old %d\n", answer(), old ? old() : -1);
    return 0;
}
#endif
