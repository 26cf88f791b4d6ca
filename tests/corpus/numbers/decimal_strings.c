// Numbers into text and back, exactly, in every base and size.
//# Args: -D_GNU_SOURCE
//# Variants: pie static
//# Output: 0x1.999999999999ap-4 zz=1295 inf nan ERANGE 1e+308
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    char text[64], *end;
    double tenth = strtod("0.1", &end);
    snprintf(text, sizeof text, "%a", tenth);
    errno = 0;
    unsigned long long huge = strtoull("99999999999999999999999", NULL, 10);
    int range = errno == ERANGE && huge == ~0ull;
    printf("%s zz=%ld %g %g %s %g\n", text, strtol("zz", NULL, 36), strtod("inf", NULL),
           __builtin_fabs(strtod("nan", NULL)), range ? "ERANGE" : "no error", strtod("1e308", NULL));
    return strtod(text, NULL) != tenth;
}
