// Layout known to the compiler: alignment, offsets, anonymous members, flexible arrays.
//# Variants: pie+c11 static+c11
//# Output: 64 16 7 8
#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
struct record {
    alignas(64) char first;
    struct {
        char tag;
        union {
            double number;
            long integer;
        };
    };
    int count;
    int items[];
};
_Static_assert(alignof(struct record) == 64, "the first member decides");
int main(void) {
    struct record *r = aligned_alloc(64, 128);
    r->integer = 7;
    r->items[0] = 8;
    printf("%zu %zu %ld %d\n", alignof(struct record), offsetof(struct record, number), r->integer,
           r->items[0]);
    free(r);
    return 0;
}
