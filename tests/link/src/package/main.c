#include <stdio.h>
unsigned own_sum(void);
unsigned big_sum(void);
int main(void) {
    printf("%u %u\n", own_sum(), big_sum());
    return 0;
}
