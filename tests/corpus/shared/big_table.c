// Sixteen thousand exported functions, looked up by name at run time.
//# Library: LIBRARY
//# Link: -ldl
//# Variants: pie pie+hash
//# Output: 12345 16383
#ifdef LIBRARY
__asm__(".text\n.altmacro\n.macro one n\n.globl f\\n\n.type f\\n, @function\nf\\n: mov $\\n, %eax\n ret\n"
        ".size f\\n, . - f\\n\n.endm\n.set i, 0\n.rept 16384\none %i\n.set i, i + 1\n.endr\n.noaltmacro\n");
int anchor(void);
int anchor(void) { return 0; }
#else
#include <dlfcn.h>
#include <stdio.h>
int anchor(void);
static int call(const char *name) {
    int (*function)(void);
    *(void **)&function = dlsym(RTLD_DEFAULT, name);
    return function ? function() : -1;
}
int main(void) {
    int first = call("f12345"), last = call("f16383");
    printf("%d %d\n", first, last);
    return anchor();
}
#endif
