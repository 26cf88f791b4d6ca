// A set of records collected by the linker from two objects, walked between its start and stop.
//# Object: OTHER
//# Variants: pie+O2 static pie+relr
//# Output: a1 b1 a2 b2
struct record {
    const char *name;
    int number;
};
#define record(n, text)                                                                                      \
    __attribute__((section("records"), used, aligned(16))) static const struct record r##n = {text, n}
#ifdef OTHER
record(2, "b");
record(12, "b");
#else
#include <stdio.h>
record(1, "a");
record(11, "a");
extern const struct record __start_records[], __stop_records[];
int main(void) {
    const char *names[4] = {"", "", "", ""};
    int count = 0;
    for (const struct record *r = __start_records; r < __stop_records; r++, count++)
        names[(r->number > 10) * 2 + (r->name[0] == 'b')] = r->name;
    if (count != 4)
        return 1;
    printf("%s1 %s1 %s2 %s2\n", names[0], names[1], names[2], names[3]);
    return 0;
}
#endif
