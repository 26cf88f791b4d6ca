// Variables with a clean-up function, in the order of their scopes, also past a return and a goto.
//# Variants: pie+O2 no-pie
//# Output: inner outer returned again outer end
#include <stdio.h>
static void report(const char **name) { printf("%s ", *name); }
static void work(int again) {
    __attribute__((cleanup(report))) const char *outer = "outer";
    {
        __attribute__((cleanup(report))) const char *inner = again ? "again" : "inner";
        if (inner[0] == 'x')
            goto out;
    }
    return;
out:
    printf("not reached %s", outer);
}
int main(void) {
    work(0);
    printf("returned ");
    work(1);
    puts("end");
    return 0;
}
