// The program opened by itself: its exported functions by name, its hidden ones not.
//# Link: -rdynamic -ldl
//# Variants: pie no-pie pie+hash
//# Output: seen 3, hidden
#include <dlfcn.h>
#include <stdio.h>
int seen(void);
int seen(void) { return 3; }
__attribute__((visibility("hidden"))) int unseen(void);
int unseen(void) { return 4; }
int main(void) {
    void *self = dlopen(NULL, RTLD_NOW);
    int (*function)(void);
    *(void **)&function = dlsym(self, "seen");
    printf("seen %d, %s\n", function ? function() : -1, dlsym(self, "unseen") ? "found" : "hidden");
    return unseen() - 4;
}
