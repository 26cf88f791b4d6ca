// Times and dates: into parts and back, a time zone by a rule in the environment.
//# Args: -D_GNU_SOURCE
//# Variants: pie static
//# Output: 2001-09-09 03:46:40 XYZ 1000000000 Sunday
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(void) {
    time_t time = 1000000000;
    struct tm parts, read = {0};
    char text[64], day[16];
    setenv("TZ", "XYZ-2", 1);
    tzset();
    localtime_r(&time, &parts);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %Z", &parts);
    strptime("2001-09-09 03:46:40", "%Y-%m-%d %H:%M:%S", &read);
    strftime(day, sizeof day, "%A", &parts);
    printf("%s %lld %s\n", text, (long long)mktime(&read), day);
    return 0;
}
