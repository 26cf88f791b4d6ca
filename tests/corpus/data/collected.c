// Sections with names like C identifiers have __start_ and __stop_ symbols; --gc-sections keeps them.
//# Object: OTHER
//# Args: -DUSED=__attribute__((used,retain)) -Wno-attributes -Wno-unknown-attributes
//# Variants: pie static no-pie+O2
//# Output: one two
struct entry {
    const char *name;
    struct entry *self;
};
#define ENTRY(id) USED __attribute__((section("entries"))) static struct entry id = {#id, &id}
#ifdef OTHER
ENTRY(two);
#else
#include <stdio.h>
#include <string.h>
ENTRY(one);
extern struct entry __start_entries[], __stop_entries[];
int main(void) {
    int found[2] = {0, 0};
    for (struct entry *e = __start_entries; e < __stop_entries; e++)
        found[e->name[0] == 't'] = e->self == e;
    printf("%s %s\n", found[0] ? "one" : "-", found[1] ? "two" : "-");
    return __stop_entries - __start_entries != 2;
}
#endif
