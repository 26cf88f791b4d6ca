// What the kernel tells of a process: limits, usage, names; set and read back.
//# Args: -D_GNU_SOURCE
//# Variants: pie static
//# Output: limit 100, named test, used
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
int main(void) {
    struct rlimit limit = {100, 100};
    struct rusage usage;
    char name[16] = "";
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
    prctl(PR_SET_NAME, "test");
    prctl(PR_GET_NAME, name);
    getrusage(RUSAGE_SELF, &usage);
    printf("limit %d, named %s, %s\n", (int)limit.rlim_cur, name, usage.ru_maxrss > 0 ? "used" : "unused");
    return 0;
}
