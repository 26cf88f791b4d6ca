// Pointers at odd addresses need relocations that no packed format can hold.
//# Variants: pie pie+relr static-pie no-pie
//# Args: -Wno-address-of-packed-member
//# Output: abc 3
#include <stdio.h>
struct __attribute__((packed)) odd {
    char pad;
    const char *text;
    int (*function)(int);
};
static int identity(int x) { return x; }
static struct odd odds[] = {{1, "a", identity}, {2, "b", NULL}, {3, "c", identity}};
int main(void) {
    struct odd *volatile o = odds;
    printf("%s%s%s %d\n", o[0].text, o[1].text, o[2].text, o[2].function(o[2].pad));
    return 0;
}
