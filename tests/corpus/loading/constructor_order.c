// Three libraries that need each other in a chain, dlopened: constructors from the bottom, destructors from the top.
//# Plugin: BOTTOM
//# Plugin: MIDDLE libBOTTOM.so
//# Plugin: TOP libMIDDLE.so
//# Link: -ldl
//# Variants: pie no-pie
//# Output: +bottom +middle +top 3 -top -middle -bottom
#include <stdio.h>
int bottom(void);
int middle(void);
int top(void);
#if defined BOTTOM || defined MIDDLE || defined TOP
#if defined BOTTOM
#define NAME "bottom"
int bottom(void) { return 1; }
#elif defined MIDDLE
#define NAME "middle"
int middle(void) { return bottom() + 1; }
#else
#define NAME "top"
int top(void) { return middle() + 1; }
#endif
__attribute__((constructor)) static void begin(void) { printf("+" NAME " "); }
__attribute__((destructor)) static void finish(void) { printf("-" NAME "%c", NAME[0] == 'b' ? '\n' : ' '); }
#else
#include <dlfcn.h>
int main(void) {
    void *library = dlopen("libTOP.so", RTLD_NOW);
    if (!library)
        return puts(dlerror());
    int (*function)(void);
    *(void **)&function = dlsym(library, "top");
    printf("%d ", function());
    return dlclose(library);
}
#endif
