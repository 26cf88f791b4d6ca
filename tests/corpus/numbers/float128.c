// Quadruple precision, done by libgcc.
//# Variants: pie static+O2
//# Output: 333333333333333333333333333333333
#include <stdio.h>
int main(void) {
    volatile __float128 one = 1, three = 3;
    __float128 third = one / three;
    for (int i = 0; i < 33; i++) {
        third *= 10;
        int digit = (int)third;
        putchar('0' + digit);
        third -= digit;
    }
    putchar('\n');
    return 0;
}
