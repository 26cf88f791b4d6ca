// Functions before all constructors, of the libraries too.
//# Library: LIBRARY
//# Variants: pie no-pie
//# Output: program first, library, program, main
#ifdef LIBRARY
extern int stage;
int stage;
int library_stage;
__attribute__((constructor)) static void construct(void) { library_stage = ++stage; }
#else
#include <stdio.h>
extern int stage, library_stage;
static int first_stage, own_stage;
static void first(void) { first_stage = ++stage; }
__attribute__((section(".preinit_array"), used)) static void (*const table[])(void) = {first};
__attribute__((constructor)) static void construct(void) { own_stage = ++stage; }
int main(void) {
    if (first_stage == 1 && library_stage == 2 && own_stage == 3)
        puts("program first, library, program, main");
    return 0;
}
#endif
